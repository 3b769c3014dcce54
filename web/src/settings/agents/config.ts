// The known settings of a definition's `config` as fields of a form. All other entries are edited as JSON.
import { t } from '../../ui/language';

export interface Setting {
  /** Where it is in `config`. */
  path: string;
  /** Its other spelling. */
  alias?: string;
  label: string;
  /** `lines`: a list of texts, one per line. */
  kind: 'integer' | 'number' | 'text' | 'lines' | 'choice';
  hint?: string;
  placeholder?: string;
  min?: number;
  max?: number;
  choices?: readonly (readonly [string, string])[];
  /** The flows that use it; absent: all. */
  flows?: readonly string[];
}

export const FLOW_SETTINGS: readonly Setting[] = [
  {
    path: 'flow.agents',
    label: t('Agents of the flow'),
    kind: 'lines',
    hint: t('Names, one per line, in order; at most 20.'),
    flows: ['sequential', 'loop', 'parallel', 'discussion'],
  },
  {
    path: 'flow.tool',
    label: t('Tool of a program'),
    kind: 'text',
    hint: t('The tool that executes the turns.'),
    flows: ['function'],
  },
  {
    path: 'flow.maxIterations',
    alias: 'flow.max_iterations',
    label: t('Maximum rounds'),
    kind: 'integer',
    min: 1,
    max: 100,
    placeholder: '5',
    flows: ['loop'],
  },
  {
    path: 'flow.exitWhen',
    alias: 'flow.exit_when',
    label: t('End when an answer contains'),
    kind: 'text',
    flows: ['loop'],
  },
  {
    path: 'flow.threshold',
    label: t('Share of votes that decides'),
    kind: 'number',
    min: 0,
    max: 1,
    placeholder: '0.7',
    flows: ['discussion'],
  },
  {
    path: 'flow.rounds',
    label: t('Rounds of arguments'),
    kind: 'integer',
    min: 0,
    max: 10,
    placeholder: '1',
    flows: ['discussion'],
  },
];

export const BEHAVIOUR_SETTINGS: readonly Setting[] = [
  { path: 'confirm', label: t('Calls that need approval'), kind: 'lines', hint: t('Tools or globs, one per line.') },
  {
    path: 'handoffs',
    label: t('Handoffs'),
    kind: 'lines',
    hint: t('Agents that may take over, one per line; at most 20.'),
  },
  {
    path: 'toolSelection',
    alias: 'tool_selection',
    label: t('Tools shown to the model'),
    kind: 'choice',
    choices: [
      ['all', t('All')],
      ['context', t('Those that fit the conversation')],
    ],
  },
  { path: 'questions', label: t('Maximum questions'), kind: 'integer', min: 0, placeholder: t('No limit') },
  { path: 'planning.executor', label: t('Agent for plan steps'), kind: 'text', placeholder: 'executor' },
  { path: 'planning.reviewer', label: t('Agent that reviews plans'), kind: 'text', placeholder: t('None: rules do') },
  {
    path: 'specialty.databases',
    label: t('Specialty: databases'),
    kind: 'lines',
    hint: t('Kinds such as postgresql, one per line.'),
  },
  {
    path: 'specialty.keywords',
    label: t('Specialty: keywords'),
    kind: 'lines',
    hint: t('One per line; at most 50, of 60 characters each.'),
  },
];

export const TREE_SETTINGS: readonly Setting[] = [
  { path: 'limits.tokens', label: t('Maximum tokens'), kind: 'integer', min: 0, placeholder: '5000000' },
  {
    path: 'limits.costUsd',
    alias: 'limits.cost_usd',
    label: t('Maximum cost (USD)'),
    kind: 'number',
    min: 0,
    placeholder: '25',
  },
  { path: 'limits.runs', label: t('Maximum sub-agents'), kind: 'integer', min: 0, placeholder: '200' },
  { path: 'limits.seconds', label: t('Maximum duration (seconds)'), kind: 'integer', min: 0, placeholder: '3600' },
];

const SETTINGS = [...FLOW_SETTINGS, ...BEHAVIOUR_SETTINGS, ...TREE_SETTINGS];

export interface ConfigDraft {
  /** What is typed, by path. */
  settings: Readonly<Record<string, string>>;
  /** All other entries, as JSON. */
  rest: string;
}

export function emptyConfig(): ConfigDraft {
  return { settings: {}, rest: '{}' };
}

/** The entries of a text with one per line. */
export function linesOf(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}

type Json = Record<string, unknown>;

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A value as its field shows it; null: only JSON can. */
function shown({ kind, choices }: Setting, value: unknown): string | null {
  switch (kind) {
    case 'integer':
    case 'number':
      return typeof value === 'number' ? String(value) : null;
    case 'choice':
      return choices?.some(([name]) => name === value) ? String(value) : null;
    case 'text':
      return typeof value === 'string' && value !== '' && !value.includes('\n') ? value : null;
    case 'lines': {
      if (!Array.isArray(value) || value.length === 0 || !value.every((one) => typeof one === 'string')) return null;
      const text = value.join('\n');
      return linesOf(text).join('\n') === text ? text : null;
    }
  }
}

function settingOf({ kind }: Setting, text: string): unknown {
  if (kind === 'lines') return linesOf(text);
  return kind === 'integer' || kind === 'number' ? Number(text) : text;
}

/** The object that holds a path's last part, and this part. */
function placeOf(config: Json, path: string): [Json | undefined, string] {
  const parts = path.split('.');
  const last = parts.pop() ?? '';
  let holder: unknown = config;
  for (const part of parts) holder = isObject(holder) ? holder[part] : undefined;
  return [isObject(holder) ? holder : undefined, last];
}

/** Takes a setting out of `config`, if its field can show it. Objects that are empty then are removed. */
function taken(config: Json, setting: Setting): string | null {
  for (const path of [setting.path, ...(setting.alias ? [setting.alias] : [])]) {
    const [holder, name] = placeOf(config, path);
    const text = holder && name in holder ? shown(setting, holder[name]) : null;
    if (!holder || text === null) continue;
    delete holder[name];
    const [parent = ''] = path.split('.');
    if (holder !== config && Object.keys(holder).length === 0) delete config[parent];
    return text;
  }
  return null;
}

export function configDraftOf(config: unknown): ConfigDraft {
  const rest = isObject(config) ? structuredClone(config) : {};
  const settings = SETTINGS.flatMap((setting) => {
    const text = taken(rest, setting);
    return text === null ? [] : [[setting.path, text] as const];
  });
  return { settings: Object.fromEntries(settings), rest: JSON.stringify(rest, null, 2) };
}

/** The JSON part; null: it is not valid, or not an object. */
function restOf(rest: string): Json | null {
  try {
    const read: unknown = JSON.parse(rest.trim() === '' ? '{}' : rest);
    return isObject(read) ? read : null;
  } catch {
    return null;
  }
}

function isIn(config: Json, { path, alias }: Setting): boolean {
  const [parent = ''] = path.split('.');
  if (path.includes('.') && parent in config && !isObject(config[parent])) return true;
  return [path, alias].some((spelling) => {
    if (spelling === undefined) return false;
    const [holder, name] = placeOf(config, spelling);
    return holder !== undefined && name in holder;
  });
}

/** The settings that are in the JSON part: it counts, and their fields are not used. */
export function settingsInJson({ rest }: ConfigDraft): ReadonlySet<string> {
  const config = restOf(rest);
  return new Set(config ? SETTINGS.filter((setting) => isIn(config, setting)).map(({ path }) => path) : []);
}

/** The `config` of a draft. Throws if its JSON part is not valid. */
export function configOf(draft: ConfigDraft): Json {
  const config = restOf(draft.rest);
  if (config === null) throw new SyntaxError(whyNot(draft.rest));
  const inJson = settingsInJson(draft);
  for (const setting of SETTINGS) {
    const text = (draft.settings[setting.path] ?? '').trim();
    if (text === '' || inJson.has(setting.path)) continue;
    const [parent = '', name] = setting.path.split('.');
    if (name === undefined) config[parent] = settingOf(setting, text);
    else config[parent] = { ...(config[parent] as Json | undefined), [name]: settingOf(setting, text) };
  }
  return config;
}

function whyNot(rest: string): string {
  try {
    JSON.parse(rest);
    return t('it must be an object');
  } catch (error) {
    return error instanceof Error ? error.message : '';
  }
}
