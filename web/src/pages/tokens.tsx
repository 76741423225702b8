/** Tokens: list, create (the secret is shown once), revoke. For the role admin. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { get, post, remove, session } from "../api/client";
import type { CreatedToken, Token, TokenList } from "../api/types";
import { Confirm } from "../components/dialog";
import { Badge, Empty, Heading, Pending } from "../components/parts";
import { rowsWhere, VirtualTable, type Column } from "../components/table";
import { dateTime } from "../format";
import { secondsUntil } from "../live/clock";
import { useDocument } from "../live/loader";

const ROLES = ["viewer", "operator", "admin"] as const;
const DAY = 86_400;

function tokenState(token: Token): "valid" | "revoked" | "expired" {
  if (token.revoked_at !== null) return "revoked";
  return secondsUntil(token.expires_at) > 0 ? "valid" : "expired";
}

function tokenColumns(tokens: readonly Token[], onRevoke: (token: Token) => void): Column[] {
  const state = (row: number): string => (tokens[row] === undefined ? "" : tokenState(tokens[row]));
  return [
    { key: "name", title: "Name", track: "minmax(6rem, 1fr)", value: (row) => tokens[row]?.name ?? "", cell: (row) => tokens[row]?.name },
    { key: "id", title: "Id", track: "6.5rem", wide: true, value: (row) => tokens[row]?.id ?? "", cell: (row) => <span class="code">{tokens[row]?.id}</span> },
    { key: "role", title: "Role", track: "6rem", value: (row) => tokens[row]?.role ?? "", cell: (row) => tokens[row]?.role },
    { key: "state", title: "State", track: "6rem", value: state, cell: (row) => <Badge tone={state(row) === "valid" ? "ok" : "neutral"}>{state(row)}</Badge> },
    { key: "created", title: "Created", track: "12.5rem", wide: true, value: (row) => tokens[row]?.created_at ?? "", cell: (row) => dateTime(tokens[row]?.created_at) },
    { key: "by", title: "Created by", track: "minmax(5rem, 0.7fr)", wide: true, value: (row) => tokens[row]?.created_by ?? "", cell: (row) => tokens[row]?.created_by },
    { key: "expires", title: "Expires", track: "12.5rem", wide: true, value: (row) => tokens[row]?.expires_at ?? "", cell: (row) => dateTime(tokens[row]?.expires_at) },
    { key: "used", title: "Last used", track: "12.5rem", wide: true, value: (row) => tokens[row]?.last_used_at ?? null, cell: (row) => dateTime(tokens[row]?.last_used_at) },
    { key: "revoke", title: "Action", track: "7rem", cell: (row) => <Revoke token={tokens[row]} onRevoke={onRevoke} /> },
  ];
}

function Revoke(props: { token: Token | undefined; onRevoke: (token: Token) => void }): JSX.Element | null {
  const { token } = props;
  if (token === undefined || tokenState(token) !== "valid") return null;
  return (
    <button type="button" class="link-button" aria-label={`Revoke the token ${token.name} ${token.id}`} onClick={() => props.onRevoke(token)}>
      Revoke
    </button>
  );
}

export function Tokens(): JSX.Element {
  if (session.value?.role !== "admin") return <><Heading title="Tokens" /><Empty>Tokens are open to the role admin.</Empty></>;
  return <TokenScreen />;
}

function TokenScreen(): JSX.Element {
  const [creating, setCreating] = useState(false);
  const [created, setCreated] = useState<CreatedToken | null>(null);
  const [revoked, setRevoked] = useState<Token | null>(null);
  const found = useDocument<TokenList>("tokens", (abort) => get("/tokens", abort));
  const tokens = found.value?.tokens;
  const columns = useMemo(() => tokenColumns(tokens ?? [], setRevoked), [tokens]);
  const rows = useMemo(() => rowsWhere(tokens?.length ?? 0, () => true), [tokens]);
  return (
    <>
      <Heading title="Tokens" text="Access to this page and the HTTP API. Give each person and program a token of its own.">
        <button type="button" class="button primary" onClick={() => setCreating(true)}>
          Create a token
        </button>
      </Heading>
      {created !== null ? <Secret token={created} onClose={() => setCreated(null)} /> : null}
      {tokens === undefined ? (
        <Pending error={found.error} reload={found.reload} what="tokens" />
      ) : (
        <VirtualTable label="Tokens" noun="token" columns={columns} rows={rows} initial="-created" />
      )}
      {creating ? (
        <Create
          onCreated={(token) => {
            setCreated(token);
            found.reload();
          }}
          onClose={() => setCreating(false)}
        />
      ) : null}
      {revoked !== null ? (
        <Confirm
          title={`Revoke the token ${revoked.name}?`}
          action="Revoke"
          danger
          onConfirm={async () => {
            await remove(`/tokens/${encodeURIComponent(revoked.id)}`);
            found.reload();
          }}
          onClose={() => setRevoked(null)}
        >
          <p class="muted">Its sessions end at once. It cannot be used again.</p>
        </Confirm>
      ) : null}
    </>
  );
}

function Secret(props: { token: CreatedToken; onClose: () => void }): JSX.Element {
  const { token } = props;
  return (
    <div class="note note-info" role="status">
      <span>
        Token of {token.name} ({token.role}). Copy it now, it is not shown again: <code class="secret">{token.secret}</code>
      </span>
      <button type="button" class="button" onClick={props.onClose}>
        Hide it
      </button>
    </div>
  );
}

function Create(props: { onCreated: (token: CreatedToken) => void; onClose: () => void }): JSX.Element {
  const [name, setName] = useState("");
  const [role, setRole] = useState<string>(ROLES[0]);
  const [days, setDays] = useState(90);
  return (
    <Confirm
      title="Create a token"
      action="Create"
      onConfirm={async () => props.onCreated(await post<CreatedToken>("/tokens", { name, role, seconds: days * DAY }))}
      onClose={props.onClose}
    >
      <label class="field">
        <span>Name</span>
        <input class="input" required maxLength={100} value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <label class="field">
        <span>Role</span>
        <select class="input" value={role} onChange={(event) => setRole(event.currentTarget.value)}>
          {ROLES.map((each) => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
        </select>
      </label>
      <label class="field">
        <span>Valid for (days)</span>
        <input class="input" type="number" min={1} max={3660} required value={days} onInput={(event) => setDays(Number(event.currentTarget.value))} />
      </label>
    </Confirm>
  );
}
