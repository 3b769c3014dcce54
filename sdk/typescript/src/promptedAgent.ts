/** An agent of a language model: a prompt, and the tools that it may call. */
import { checkName, shownOf } from './agentTexts.js';
import type { AnyTool } from './handler.js';
import { type JsonSchema, type Schema, type Shape, shapeOf } from './schemas.js';
import { Tool } from './tool.js';

export interface PromptedAgentOptions {
  /** The name by which it is chosen: 1 to 200 characters. */
  name: string;
  /** What it does, for people and for agents that start it. Its first line is shown. */
  description: string;
  /** What the model has to do, and how; at most 200,000 characters. */
  prompt: string;
  /**
   * Tools of the worker, or their names. Default: none. With a key that has the scope `admin`: also the names of other tools, with globs, such as
   * `search_*`.
   */
  tools?: readonly (AnyTool | string)[];
  /** `provider:model`, or a well-known name. Default: the model of plain conversations. */
  model?: string;
  /** What its answers match: `z.object({…})`, or the JSON Schema of an object. Default: any text. */
  output?: Schema;
  /** Maximum number of the model's calls in a turn. */
  maxSteps?: number;
}

/** Maximum length of a prompt, in characters. */
const PROMPT_MAX = 200_000;

/** An agent of a language model. A worker announces it, and serves those of its tools that are here. Made by `agent`. */
export class PromptedAgent {
  readonly name: string;
  /** The first line of the description, at most 200 characters. */
  readonly description: string;
  readonly prompt: string;
  /** The tools that it may call, some of them by their names. */
  readonly tools: readonly (AnyTool | string)[];
  /** Undefined: the model of plain conversations. */
  readonly model: string | undefined;
  /** Undefined: any text. */
  readonly output: Shape | undefined;
  readonly maxSteps: number | undefined;

  constructor(options: PromptedAgentOptions) {
    const { name, description, prompt, tools = [], model, output, maxSteps } = options;
    checkName(name);
    this.name = name;
    this.description = shownOf(description, name);
    if (typeof prompt !== 'string' || prompt.trim() === '') throw new TypeError(`agent ${name}: the prompt is empty`);
    if ([...prompt].length > PROMPT_MAX)
      throw new RangeError(`agent ${name}: a prompt has at most ${PROMPT_MAX} characters`);
    if (!Array.isArray(tools)) throw new TypeError(`agent ${name}: tools is not a list; write tools: [refund]`);
    for (const one of tools)
      if (!(one instanceof Tool) && (typeof one !== 'string' || one.trim() === ''))
        throw new TypeError(
          `agent ${name}: ${JSON.stringify(one)} is neither a tool nor the name of one; make one with tool({…})`,
        );
    if (model !== undefined && (typeof model !== 'string' || model.trim() === ''))
      throw new TypeError(`agent ${name}: the name of the model is empty; write one, or leave it out`);
    if (maxSteps !== undefined && !(Number.isInteger(maxSteps) && maxSteps >= 1))
      throw new RangeError(`agent ${name}: maxSteps is ${maxSteps}; choose a whole number from 1`);
    this.prompt = prompt;
    this.tools = [...tools];
    this.model = model;
    this.output = output && shapeOf(output, 'input', `agent ${name}: the output`);
    if (this.output && this.output.jsonSchema.type !== 'object')
      throw new TypeError(
        `agent ${name}: the output is an object; write z.object({…}), or a JSON Schema with type: 'object'`,
      );
    this.maxSteps = maxSteps;
  }

  /** The names of its tools, each once. */
  get toolNames(): string[] {
    return [...new Set(this.tools.map((one) => (typeof one === 'string' ? one : one.name)))];
  }

  /** Returns the agent as a registration has it. */
  definition(): PromptedAgentDefinition {
    const { name, description, prompt, toolNames, model, output, maxSteps } = this;
    return {
      ...{ name, description, systemPrompt: prompt, tools: toolNames },
      ...(model === undefined ? {} : { model }),
      ...(output === undefined ? {} : { outputSchema: output.jsonSchema }),
      ...(maxSteps === undefined ? {} : { maxSteps }),
    };
  }
}

/** An agent of a language model as a registration has it. */
export interface PromptedAgentDefinition {
  readonly name: string;
  readonly description: string;
  readonly systemPrompt: string;
  /** The names of the tools that it may call. */
  readonly tools: readonly string[];
  readonly model?: string;
  readonly outputSchema?: JsonSchema;
  readonly maxSteps?: number;
}
