/** `agent`: a function that executes the turns of conversations, with what people and other agents know about it. */
import { z } from 'zod';
import type { CallContext } from './callContext.js';
import { isToolName, Tool, type WhenAbsent } from './tool.js';

/** An earlier message of a conversation. */
export interface Said {
  readonly role: 'user' | 'assistant';
  readonly text: string;
}

/** What the function of an agent gets. */
export interface AgentMessage {
  /** The message of the user, or the task that another agent has started it with. */
  readonly message: string;
}

/** What the function of an agent gets that has asked for the history. */
export interface AgentMessageWithHistory extends AgentMessage {
  /** What was said before, the oldest first: at most the newest 100 messages. */
  readonly history: Said[];
}

/** What the function of an agent gets. `H`: whether it has asked for the history. */
export type AgentInput<H extends boolean = false> = H extends true ? AgentMessageWithHistory : AgentMessage;

export interface AgentOptions<H extends boolean = false, R = unknown> {
  /** The name by which it is chosen: 1 to 200 characters. */
  name: string;
  /** What it does, for people and for agents that start it. Its first line is shown. */
  description: string;
  /** The name of the tool that executes its turns: 1 to 64 letters, digits, `_` and `-`. Default: the name of the agent. */
  toolName?: string;
  /** The function gets what was said before, as `history`. Default: only the message. */
  history?: H;
  /** 1 to 32 letters, digits, `_`, `-` and `.`; default `1`. Change it with the steps of the function, to serve both versions during a rollout. */
  version?: string;
  /**
   * Default true: all its effects are in steps of the call, so a turn begins again after a lost worker, and gets their recorded results. It must
   * ask for the same steps each time. With false, a turn whose worker is lost fails.
   */
  durable?: boolean;
  /** Maximum duration of one attempt, in whole seconds; default 3,600, at most 86,400. The time in which the function waits does not count. */
  timeoutS?: number;
  /** Without a live worker, turns wait (`wait`, the default), or fail (`hide`). */
  whenAbsent?: WhenAbsent;
  /** The function. Its result is the answer: a text as it is, anything else as JSON. */
  run: (input: AgentInput<H>, call: CallContext) => R | Promise<R>;
}

/** Maximum length of an agent's name and description, in characters. */
const TEXT_MAX = 200;
const TIMEOUT_S = 3600;

const WITHOUT_HISTORY = z.object({ message: z.string() });
const WITH_HISTORY = z.object({
  message: z.string(),
  history: z.array(z.object({ role: z.enum(['user', 'assistant']), text: z.string() })),
});

/** A function that users and other agents talk to. Made by `agent`. */
export class AgentFunction<H extends boolean = false, R = unknown> {
  readonly name: string;
  /** The first line of the description, at most 200 characters. */
  readonly description: string;
  /** The tool that executes its turns. */
  readonly tool: Tool<AgentInput<H>, R>;

  constructor(options: AgentOptions<H, R>) {
    const { name, toolName = name, history, ...others } = options;
    if (typeof name !== 'string' || name.trim() === '' || [...name].length > TEXT_MAX)
      throw new TypeError(`agent ${JSON.stringify(name)}: a name has 1 to ${TEXT_MAX} characters`);
    if (!isToolName(toolName))
      throw new TypeError(
        `agent ${name}: the name of its tool, ${JSON.stringify(toolName)}, does not have 1 to 64 letters, digits, \`_\` and \`-\`; ` +
          "set toolName, such as 'billing_clerk'",
      );
    if (typeof options.description !== 'string' || options.description.trim() === '')
      throw new TypeError(`agent ${name}: people and agents choose an agent by its description; write one`);
    this.name = name;
    this.description = firstLine(options.description);
    this.tool = new Tool<AgentInput<H>, R>({
      ...others,
      name: toolName,
      input: history ? WITH_HISTORY : WITHOUT_HISTORY,
      durable: options.durable ?? true,
      timeoutS: options.timeoutS ?? TIMEOUT_S,
    });
  }

  /** Calls the function, as a program may. */
  run(input: AgentInput<H>, call: CallContext): Promise<R> {
    return this.tool.run(input, call);
  }

  /** Returns the agent as a registration has it. */
  definition(): AgentDefinition {
    return { name: this.name, description: this.description, tool: this.tool.name };
  }
}

/** An agent, whatever its types are. */
export type AnyAgent = AgentFunction<boolean, unknown>;

/** An agent as a registration has it. */
export interface AgentDefinition {
  readonly name: string;
  readonly description: string;
  /** The name of the tool that executes its turns. */
  readonly tool: string;
}

/**
 * Makes an agent of a function: it gets the user's message, and its result is the answer. No model of Rejoin is asked: the function calls one
 * itself, or starts agents with `call.spawn`.
 *
 * Throws a `TypeError` or a `RangeError`, with what to change, if it can't be an agent.
 */
export function agent<H extends boolean = false, R = unknown>(options: AgentOptions<H, R>): AgentFunction<H, R> {
  return new AgentFunction(options);
}

function firstLine(description: string): string {
  const [line = ''] = description.trim().split(/\r?\n/, 1);
  return [...line].slice(0, TEXT_MAX).join('');
}
