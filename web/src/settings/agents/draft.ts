// A form's draft of an agent definition: what is typed, and the request that it makes.
import { Problem, type Schemas } from '../../api/http';
import { type ConfigDraft, configDraftOf, configOf, emptyConfig, linesOf } from './config';

export type Definition = Schemas['DefinitionBody'];
type Request = Schemas['DefinitionRequest'];

/** A definition's model, as the API stores it. */
interface ModelChoice {
  name: string;
  temperature?: number;
  maxTokens?: number;
  reasoningEffort?: string;
  fallbackModels?: string[];
  orDefault?: boolean;
}

/** Numbers are kept as they are typed: an empty text is none. */
export interface Draft {
  name: string;
  description: string;
  systemPrompt: string;
  model: string;
  temperature: string;
  maxTokens: string;
  reasoningEffort: string;
  /** Names, one per line. */
  fallbackModels: string;
  orDefault: boolean;
  tools: readonly string[];
  flowType: string;
  visibility: string;
  isDefault: boolean;
  maxSteps: string;
  defaultTimeout: string;
  maxDepth: string;
  config: ConfigDraft;
}

/** The deployment's default model, as a name. */
const DEFAULT_MODEL = 'default';

function typed(number: number | null | undefined): string {
  return number === null || number === undefined ? '' : String(number);
}

function numberOf(text: string): number | null {
  return text.trim() === '' ? null : Number(text);
}

/** null: a new one. */
export function draftOf(definition: Definition | null): Draft {
  const model = (definition?.model ?? null) as ModelChoice | null;
  return {
    name: definition?.name ?? '',
    description: definition?.description ?? '',
    systemPrompt: definition?.systemPrompt ?? '',
    model: model?.name ?? '',
    temperature: typed(model?.temperature),
    maxTokens: typed(model?.maxTokens),
    reasoningEffort: model?.reasoningEffort ?? '',
    fallbackModels: model?.fallbackModels?.join('\n') ?? '',
    orDefault: model?.orDefault ?? false,
    tools: definition?.tools ?? [],
    flowType: definition?.flowType ?? 'single',
    visibility: definition?.visibility ?? 'project',
    isDefault: definition?.isDefault ?? false,
    maxSteps: typed(definition?.maxSteps),
    defaultTimeout: typed(definition?.defaultTimeout),
    maxDepth: typed(definition?.maxDepth),
    config: definition ? configDraftOf(definition.config) : emptyConfig(),
  };
}

export function isSame(one: Draft, other: Draft): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function modelOf(draft: Draft): ModelChoice | null {
  const [temperature, maxTokens] = [numberOf(draft.temperature), numberOf(draft.maxTokens)];
  const fallbackModels = linesOf(draft.fallbackModels);
  const settings = {
    ...(temperature !== null && { temperature }),
    ...(maxTokens !== null && { maxTokens }),
    ...(draft.reasoningEffort !== '' && { reasoningEffort: draft.reasoningEffort }),
    ...(fallbackModels.length > 0 && { fallbackModels }),
    ...(draft.orDefault && { orDefault: true }),
  };
  const name = draft.model.trim();
  // Settings without a model are those of the default one.
  return name === '' && Object.keys(settings).length === 0 ? null : { name: name || DEFAULT_MODEL, ...settings };
}

/** All fields of the API. Throws if the configuration is not valid JSON. */
function fieldsOf(draft: Draft): Record<string, unknown> {
  return {
    name: draft.name.trim(),
    description: draft.description,
    systemPrompt: draft.systemPrompt,
    model: modelOf(draft),
    tools: draft.tools,
    flowType: draft.flowType,
    visibility: draft.visibility,
    isDefault: draft.isDefault,
    maxSteps: numberOf(draft.maxSteps),
    defaultTimeout: numberOf(draft.defaultTimeout),
    maxDepth: numberOf(draft.maxDepth),
    config: configOf(draft.config),
  };
}

/** The fields that differ from what is stored: others may have been changed by another user. Throws as `fieldsOf` does. */
export function requestOf(base: Draft, draft: Draft): Request {
  const before = fieldsOf(base);
  const changed = Object.entries(fieldsOf(draft)).filter(
    ([field, value]) => JSON.stringify(value) !== JSON.stringify(before[field]),
  );
  return Object.fromEntries(changed) as Request;
}

/** A mistake in a field, named by its path on the wire. */
export interface Fault {
  field: string;
  message: string;
}

/** The field that a refusal is about; null: it is about none. */
export function faultOf(error: unknown): Fault | null {
  if (!(error instanceof Problem)) return null;
  if (error.code === 'name_taken') return { field: 'name', message: error.message };
  if (error.code !== 'invalid_agent_definition') return null;
  // The API's message begins with the field.
  const field = /^[A-Za-z]+(\.[A-Za-z]+)*/.exec(error.message)?.[0];
  return field === undefined ? null : { field, message: error.message };
}
