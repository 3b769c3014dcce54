// How a field differs between two versions of an agent: short values beside each other, others by line.
import type { Schemas } from '../../api/http';
import { t } from '../../ui/language';
import { lazyPart } from '../../ui/lazyView';

type Change = Schemas['AgentChange'];

const Changes = lazyPart(async () => (await import('../../ui/editor')).Changes, t('the changes'));

/** What the form calls the fields. */
const LABELS: Record<string, string> = {
  name: t('Name'),
  description: t('Description'),
  systemPrompt: t('System prompt'),
  model: t('Model'),
  tools: t('Tools'),
  flowType: t('Flow'),
  isDefault: t('Project default'),
  maxSteps: t('Maximum steps'),
  defaultTimeout: t('Timeout (seconds)'),
  visibility: t('Visibility'),
  maxDepth: t('Maximum depth'),
  config: t('Configuration'),
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

/** Fields whose values have names. */
const NAMED = ['flowType', 'visibility'];

function inWords(field: string, value: unknown): string {
  if (value === null || value === '') return t('none');
  if (typeof value === 'boolean') return value ? t('yes') : t('no');
  return NAMED.includes(field) ? t(String(value)) : String(value);
}

export function FieldChange({ change: { field, before, after } }: { change: Change }) {
  const label = labelOf(field);
  const isText = field === 'systemPrompt' || !isShort(before) || !isShort(after);
  return (
    <section aria-label={label} className="field-change">
      <h3>{label}</h3>
      {isText ? (
        <Changes before={textOf(before)} after={textOf(after)} label={t('Changes of {field}', { field: label })} />
      ) : (
        <p>
          <del>{inWords(field, before)}</del> <ins>{inWords(field, after)}</ins>
        </p>
      )}
    </section>
  );
}
