/** Questions about a changed cluster or policy: failures, drains, new nodes, growth, a new guest. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { JobRunner } from "../components/job";
import { ReplayRunner } from "../components/replay";
import { Choice, Empty, Heading, Panel } from "../components/parts";
import { route, setParameter } from "../router";
import { state } from "../live/state";

type Kind = "fail" | "drain" | "add" | "place" | "policy";

const KINDS: readonly (readonly [Kind, string])[] = [
  ["fail", "A node fails"],
  ["drain", "A node is drained"],
  ["add", "Nodes are added"],
  ["place", "A guest is started"],
  ["policy", "Another policy decides"],
];
const GIB = 1024 ** 3;

export function WhatIf(): JSX.Element {
  const shown = state.value;
  const { query } = route.value;
  const kind = (KINDS.find(([name]) => name === query.get("kind"))?.[0] ?? "fail") satisfies Kind;
  if (shown === null) return <Empty>Loading the state of the cluster …</Empty>;
  return (
    <>
      <Heading title="What if" text="Answers about the cluster of the last cycle. Nothing is changed.">
        <Choice label="Question" value={kind} options={KINDS} onChange={(value) => setParameter("kind", value)} />
      </Heading>
      <Panel title={KINDS.find(([name]) => name === kind)?.[1] ?? ""}>
        <Question key={kind} kind={kind} nodes={shown.nodes.id} first={query.get("node")} policy={shown.controller.policy} />
      </Panel>
    </>
  );
}

function Question(props: { kind: Kind; nodes: readonly string[]; first: string | null; policy: string | null }): JSX.Element {
  const { kind, nodes } = props;
  const [node, setNode] = useState(props.first ?? nodes[0] ?? "");
  const [number, setNumber] = useState(3);
  const [growth, setGrowth] = useState(0);
  const [cores, setCores] = useState(2);
  const [memory, setMemory] = useState(8);
  if (kind === "drain") {
    return (
      <JobRunner kind="drain-preview" request={{ node }} action="Preview the drain">
        <NodeField nodes={nodes} value={node} onChange={setNode} />
      </JobRunner>
    );
  }
  if (kind === "place") {
    return (
      <JobRunner kind="place" request={{ cpu: cores, memory: memory * GIB }} action="Find a node">
        <NumberField label="Virtual cores" value={cores} least={1} onChange={setCores} />
        <NumberField label="Memory (GiB)" value={memory} least={1} onChange={setMemory} />
      </JobRunner>
    );
  }
  if (kind === "policy") return <ReplayRunner action="Decide" {...(props.policy === null ? {} : { first: props.policy })} />;
  const request = kind === "fail" ? { fail: [node], growth: growth / 100 } : { add: [`${number}x${node}`], growth: growth / 100 };
  return (
    <JobRunner kind="what-if" request={request} action="Ask">
      <NodeField label={kind === "fail" ? "Node that fails" : "New nodes like"} nodes={nodes} value={node} onChange={setNode} />
      {kind === "add" ? <NumberField label="Number of nodes" value={number} least={1} onChange={setNumber} /> : null}
      <NumberField label="Growth of all guests (%)" value={growth} least={0} onChange={setGrowth} />
    </JobRunner>
  );
}

function NodeField(props: {
  label?: string;
  nodes: readonly string[];
  value: string;
  onChange: (value: string) => void;
}): JSX.Element {
  return (
    <label class="field">
      <span>{props.label ?? "Node"}</span>
      <input class="input" list="all-nodes" required value={props.value} onInput={(event) => props.onChange(event.currentTarget.value)} />
      <datalist id="all-nodes">
        {props.nodes.map((node) => (
          <option key={node} value={node} />
        ))}
      </datalist>
    </label>
  );
}

function NumberField(props: { label: string; value: number; least: number; onChange: (value: number) => void }): JSX.Element {
  return (
    <label class="field">
      <span>{props.label}</span>
      <input class="input" type="number" min={props.least} required value={props.value} onInput={(event) => props.onChange(Number(event.currentTarget.value))} />
    </label>
  );
}
