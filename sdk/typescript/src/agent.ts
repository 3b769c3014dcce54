/** `agent`: a function, or a language model with a prompt, executes the turns of conversations. */
import { z } from 'zod';
import { checkName, shownOf } from './agentTexts.js';
import type { CallContext } from './callContext.js';
import { PromptedAgent, type PromptedAgentOptions } from './promptedAgent.js';
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
    checkName(name);
    if (!isToolName(toolName))
      throw new TypeError(
        `agent ${name}: the name of its tool, ${JSON.stringify(toolName)}, does not have 1 to 64 letters, digits, \`_\` and \`-\`; ` +
          "set toolName, such as 'billing_clerk'",
      );
    this.name = name;
    this.description = shownOf(options.description, name);
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

/** An agent, whatever it is and its types are. */
export type AnyAgent = AgentFunction<boolean, unknown> | PromptedAgent;

/** An agent of a function as a registration has it. */
export interface AgentDefinition {
  readonly name: string;
  readonly description: string;
  /** The name of the tool that executes its turns. */
  readonly tool: string;
}

/**
 * Makes an agent of a function: it gets the user's message, and its result is the answer. The function asks models with `call.model`,
 * calls one itself, or starts agents with `call.spawn`.
 *
 * Throws a `TypeError` or a `RangeError`, with what to change, if it can't be an agent.
 */
export function agent<H extends boolean = false, R = unknown>(options: AgentOptions<H, R>): AgentFunction<H, R>;
/**
 * Makes an agent of a prompt: a language model executes its turns, and may call its tools. It stays in the list of agents when no worker is there; a
 * registration with another prompt, or other options, changes it.
 *
 * Throws a `TypeError` or a `RangeError`, with what to change, if it can't be an agent.
 */
export function agent(options: PromptedAgentOptions): PromptedAgent;
export function agent(options: PromptedAgentOptions | AgentOptions<boolean, unknown>): AnyAgent {
  if (!('prompt' in options)) return new AgentFunction(options);
  if ('run' in options)
    throw new TypeError(
      `agent ${options.name}: its turns are executed by a model with a prompt, or by run; remove one`,
    );
  return new PromptedAgent(options);
}
