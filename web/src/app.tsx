/** Frame of the dashboard: navigation, state of the connection, and the present screen. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, Problem, put, remove, session } from "./api/client";
import { isSignInPage, signIn } from "./api/oidc";
import type { Session } from "./api/types";
import { Finder } from "./components/finder";
import { Badge, Empty, StateBadge } from "./components/parts";
import { dateTime, duration } from "./format";
import { announcement } from "./live/announce";
import { connect, connection, controllerHealth, cycleAge, dataAge, disconnect, isConnecting, state } from "./live/state";
import { Audit } from "./pages/audit";
import { Consolidation } from "./pages/consolidation";
import { Control } from "./pages/control";
import { GuestPage, Guests } from "./pages/guests";
import { History } from "./pages/history";
import { Jobs } from "./pages/jobs";
import { Login } from "./pages/login";
import { NodePage, Nodes } from "./pages/nodes";
import { Overview } from "./pages/overview";
import { PlanPage } from "./pages/plan";
import { Plans } from "./pages/plans";
import { Reasons } from "./pages/reasons";
import { Rules } from "./pages/rules";
import { SettingsPage } from "./pages/settings";
import { Tokens } from "./pages/tokens";
import { WhatIf } from "./pages/what_if";
import { href, replace, route } from "./router";
import { isPhone } from "./screen";
import { themeChoice, type ThemeChoice } from "./theme";

interface Screen {
  path: string;
  title: string;
  show: (id: string | undefined) => JSX.Element;
}

const SCREENS: readonly Screen[] = [
  { path: "overview", title: "Overview", show: () => <Overview /> },
  { path: "plans", title: "Plans", show: (id) => (id === undefined ? <Plans /> : <PlanPage id={id} />) },
  { path: "reasons", title: "Why nothing, why not", show: () => <Reasons /> },
  { path: "nodes", title: "Nodes", show: (id) => (id === undefined ? <Nodes /> : <NodePage id={id} />) },
  { path: "guests", title: "Guests", show: (id) => (id === undefined ? <Guests /> : <GuestPage id={id} />) },
  { path: "rules", title: "Rules", show: () => <Rules /> },
  { path: "history", title: "History", show: () => <History /> },
  { path: "what-if", title: "What if", show: () => <WhatIf /> },
  { path: "jobs", title: "Drills, backtests", show: () => <Jobs /> },
  { path: "consolidation", title: "Consolidation", show: () => <Consolidation /> },
  { path: "control", title: "Control", show: () => <Control /> },
  { path: "settings", title: "Settings", show: () => <SettingsPage /> },
  { path: "tokens", title: "Tokens", show: () => <Tokens /> },
  { path: "audit", title: "Audit", show: () => <Audit /> },
];

const LOGIN = /^#login=(.+)$/;

/** Sign in by the code of a link such as `#login=odrs_...`, or find the present session. */
async function loadSession(): Promise<void> {
  const code = LOGIN.exec(window.location.hash)?.[1];
  if (code !== undefined) replace(href("overview"));
  try {
    session.value = code === undefined ? await get<Session>("/session") : await put<Session>("/session", { token: code });
  } catch (error) {
    if (error instanceof Problem && error.status > 0 && error.status < 500) {
      session.value = null;
      return;
    }
    window.setTimeout(() => void loadSession(), 2_000);
  }
}

/** Ask for the session and for the state at once: most often there is a session. */
async function start(): Promise<void> {
  if (isSignInPage()) {
    const signedIn = await signIn();
    if (signedIn === undefined) return;
    session.value = signedIn;
  } else {
    if (!LOGIN.test(window.location.hash)) void connect();
    await loadSession();
  }
  session.subscribe((signedIn) => {
    if (signedIn && !isConnecting()) void connect();
    if (signedIn === null) disconnect();
  });
}

export function App(): JSX.Element {
  const signedIn = session.value;
  useEffect(() => void start(), []);
  if (signedIn === null) return <Login />;
  if (signedIn === undefined) return <Empty>Connecting …</Empty>;
  return <Frame />;
}

function Frame(): JSX.Element {
  const [first = "overview", second] = route.value.path;
  const screen = SCREENS.find((each) => each.path === first);
  const main = useRef<HTMLElement>(null);
  const shownBefore = useRef(false);
  const address = `${first}/${second ?? ""}`;
  useEffect(() => {
    document.title = `${second ?? screen?.title ?? "OpenDRS"} · OpenDRS`;
    if (shownBefore.current) {
      main.current?.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
    shownBefore.current = true;
  }, [address]);
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>
        Skip to the content
      </a>
      <Navigation current={first} />
      <div class="page">
        <Warnings />
        <main id="main" ref={main} tabIndex={-1}>
          {screen ? <div key={address} class="screen">{screen.show(second)}</div> : <NoScreen />}
        </main>
      </div>
      <div class="hidden" role="status" aria-live="polite">{announcement.value}</div>
    </div>
  );
}

function NoScreen(): JSX.Element {
  return (
    <>
      <h1>No such screen</h1>
      <Empty>
        There is no screen with this address. See the <a href={href("overview")}>overview</a>.
      </Empty>
    </>
  );
}

function Navigation(props: { current: string }): JSX.Element {
  const [open, setOpen] = useState(false);
  const shown = state.value;
  const visible = !isPhone.value || open;
  return (
    <header class="side">
      <div class="brand">
        <a href={href("overview")}>OpenDRS</a>
        <span class="platform">{shown?.platform ?? ""}</span>
        {isPhone.value ? (
          <>
            <ConnectionBadge />
            <button type="button" class="button" aria-expanded={open} aria-controls="navigation" onClick={() => setOpen(!open)}>
              Menu
            </button>
          </>
        ) : null}
      </div>
      <div id="navigation" class="navigation" hidden={!visible}>
        <Finder onFound={() => setOpen(false)} />
        <nav aria-label="Screens">
          <ul>
            {SCREENS.map(({ path, title }) => (
              <li key={path}>
                <a href={href(path)} aria-current={path === props.current ? "page" : undefined} onClick={() => setOpen(false)}>
                  {title}
                  <Count path={path} />
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <div class="side-end">
          {isPhone.value ? null : <ConnectionBadge />}
          <Theme />
          <Account />
        </div>
      </div>
    </header>
  );
}

function Count(props: { path: string }): JSX.Element | null {
  const shown = state.value;
  if (props.path !== "plans" || !shown || shown.open_plans.length === 0) return null;
  return (
    <span class="count">
      {shown.open_plans.length}
      <span class="hidden"> open</span>
    </span>
  );
}

function ConnectionBadge(): JSX.Element {
  const status = connection.value;
  const tone = status === "live" ? "ok" : status === "lost" ? "error" : "warning";
  const text = { live: "live", polling: "polling", lost: "lost", connecting: "connecting" }[status];
  return (
    <span class="connection" title={`Data received ${duration(dataAge.value)} ago`}>
      <Badge tone={tone}>{text}</Badge>
    </span>
  );
}

function Theme(): JSX.Element {
  return (
    <label class="field-inline">
      <span>Theme</span>
      <select class="input" value={themeChoice.value} onChange={(event) => { themeChoice.value = event.currentTarget.value as ThemeChoice; }}>
        <option value="system">System</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}

function Account(): JSX.Element | null {
  const signedIn = session.value;
  if (!signedIn) return null;
  const signOut = async (): Promise<void> => {
    await remove("/session").catch(() => undefined);
    session.value = null;
  };
  return (
    <div class="account">
      <span title={`Session until ${dateTime(signedIn.expires_at)}`}>
        {signedIn.user} <span class="muted">{signedIn.role}</span>
      </span>
      <button type="button" class="button" onClick={() => void signOut()}>
        Sign out
      </button>
    </div>
  );
}

/** What makes the rest of the page doubtful: shown above every screen. */
function Warnings(): JSX.Element | null {
  const shown = state.value;
  const health = controllerHealth.value;
  const age = duration(dataAge.value);
  const warnings = [
    connection.value === "lost" ? (
      <p class="note note-error">
        <strong>Connection lost.</strong> The data on this page was received {age} ago. Connecting again …
      </p>
    ) : null,
    connection.value === "polling" ? (
      <p class="note note-warning">Live updates are not available. The page asks every few seconds; data of {age} ago.</p>
    ) : null,
    shown && health === "stopped" ? (
      <p class="note note-error">
        <strong>No controller is running.</strong> The last cycle ended {cycleAge.value === null ? "at an unknown time" : `${duration(cycleAge.value)} ago`}.
      </p>
    ) : null,
    shown && health === "late" ? (
      <p class="note note-error">
        <strong>The controller is late.</strong> {cycleAge.value === null ? "No cycle has ended since it started" : `The last cycle ended ${duration(cycleAge.value)} ago`}; the interval is {duration(shown.controller.interval)}.
      </p>
    ) : null,
    shown?.pause ? (
      <p class="note note-warning">
        <strong>Paused</strong> until {dateTime(shown.pause.until)} by {shown.pause.user}: {shown.pause.because}
      </p>
    ) : null,
    shown?.breaker ? (
      <p class="note note-error">
        <strong>Circuit breaker open</strong> since {dateTime(shown.breaker.opened_at)}: {shown.breaker.detail}
      </p>
    ) : null,
    shown?.api_breaker ? (
      <p class="note note-error">
        <strong>API circuit breaker open</strong> since {dateTime(shown.api_breaker.opened_at)}: {shown.api_breaker.detail}
      </p>
    ) : null,
    shown && shown.mode.source !== "configuration" && !shown.pause ? (
      <p class="note note-info">
        Mode <StateBadge state={shown.mode.mode} /> {shown.mode.detail}
      </p>
    ) : null,
  ];
  return warnings.some(Boolean) ? (
    <section class="warnings" aria-label="Warnings">
      {warnings}
    </section>
  ) : null;
}
