// How a field differs between two versions of an agent: short values beside each other, others by line.
import type { Schemas } from '../../api/http';
import { lazyPart } from '../../ui/lazyView';

type Change = Schemas['AgentChange'];

const Changes = lazyPart(async () => (await import('../../ui/editor')).Changes, 'the changes');

/** What the form calls the fields. */
const LABELS: Record<string, string> = {
  name: 'Name',
  description: 'Description',
  systemPrompt: 'System prompt',
  model: 'Model',
  tools: 'Tools',
  flowType: 'Flow',
  isDefault: 'Project default',
  maxSteps: 'Maximum steps',
  defaultTimeout: 'Timeout (seconds)',
  visibility: 'Visibility',
  maxDepth: 'Maximum depth',
  config: 'Configuration',
};

export function labelOf(field: string): string {
  return LABELS[field] ?? field;
}

function isShort(value: unknown): boolean {
  return (
    value === null ||
    ['number', 'boolean'].includes(typeof value) ||
    (typeof value === 'string' && !value.includes('\n'))
  );
}

/** A value as lines. */
function textOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return value;
  if (Array.isArray(value) && value.every((one) => typeof one === 'string')) return value.join('\n');
  return JSON.stringify(value, null, 2);
}

function inWords(value: unknown): string {
  if (value === null || value === '') return 'none';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return String(value);
}

export function FieldChange({ change: { field, before, after } }: { change: Change }) {
  const label = labelOf(field);
  const isText = field === 'systemPrompt' || !isShort(before) || !isShort(after);
  return (
    <section aria-label={label} className="field-change">
      <h3>{label}</h3>
      {isText ? (
        <Changes before={textOf(before)} after={textOf(after)} label={`Changes of ${label}`} />
      ) : (
        <p>
          <del>{inWords(before)}</del> <ins>{inWords(after)}</ins>
        </p>
      )}
    </section>
  );
}
