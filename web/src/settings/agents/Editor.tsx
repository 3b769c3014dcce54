// Edits an agent definition. Nothing that was typed is lost without a question.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useBlocker, useNavigate } from '@tanstack/react-router';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { api } from '../../api/http';
import { confirmed } from '../../ui/Dialog';
import { message, t } from '../../ui/language';
import { ErrorNote } from '../../ui/parts';
import { toast } from '../../ui/toasts';
import { ConfigFields, isShown } from './ConfigFields';
import { BEHAVIOUR_SETTINGS, FLOW_SETTINGS, settingsInJson, TREE_SETTINGS } from './config';
import { type Definition, type Draft, draftOf, type Fault, faultOf, isSame, requestOf } from './draft';
import { Field } from './Field';
import { Limits, ModelSettings } from './Limits';
import { ModelField } from './ModelField';
import { ToolsField } from './ToolsField';

const FLOWS = [
  ...[message('single'), message('sequential'), message('loop')],
  ...[message('parallel'), message('discussion'), message('function')],
];
const VISIBILITIES = [message('project'), message('external'), message('internal')];
const NAME_MAX_CHARS = 200;
const PROMPT_MAX_CHARS = 200_000;
/** The field with the JSON part of `config`. */
const JSON_PART = 'config';

/** The fields of the form, besides those of known settings. */
const FIELDS = [
  ...['name', 'description', 'systemPrompt', 'tools', 'flowType', 'visibility', JSON_PART],
  ...['maxSteps', 'defaultTimeout', 'maxDepth'],
  ...['name', 'temperature', 'maxTokens', 'reasoningEffort', 'fallbackModels'].map((name) => `model.${name}`),
];

/** A mistake at the field that shows it: settings without a field are part of the JSON. null: no field is wrong. */
function placed(fault: Fault | null, { config, flowType }: Draft): Fault | null {
  if (!fault?.field.startsWith('config.')) return fault && FIELDS.includes(fault.field) ? fault : null;
  const inJson = settingsInJson(config);
  const hasField = [...FLOW_SETTINGS, ...BEHAVIOUR_SETTINGS, ...TREE_SETTINGS].some(
    (setting) =>
      fault.field === `config.${setting.path}` && isShown(setting, flowType, config) && !inJson.has(setting.path),
  );
  return hasField ? fault : { ...fault, field: JSON_PART };
}

export function Editor({ path, definition }: { path: string; definition: Definition | null }) {
  const queries = useQueryClient();
  const navigate = useNavigate({ from: '/agents' });
  const form = useRef<HTMLFormElement>(null);
  /** What the form began with, and the version that it is. */
  const [base, setBase] = useState(() => draftOf(definition));
  const [version, setVersion] = useState(definition?.version);
  const [draft, setDraft] = useState(base);
  const [broken, setBroken] = useState<Fault | null>(null);
  const isUnsaved = !isSame(base, draft);
  const isOutdated = definition !== null && definition.version > (version ?? 0);
  const begin = (stored: Definition, sent?: Draft) => {
    const fresh = draftOf(stored);
    setVersion(stored.version);
    setBase(fresh);
    // What was typed while it was saved stays.
    setDraft((now) => (sent === undefined || isSame(now, sent) ? fresh : now));
  };
  if (isOutdated && !isUnsaved) begin(definition);

  const changed = async () => {
    await queries.invalidateQueries({ queryKey: ['definitions'] });
    await queries.invalidateQueries({ queryKey: ['agents'] });
    await queries.invalidateQueries({ queryKey: ['agent versions', definition?.id] });
  };
  const save = useMutation({
    mutationFn: (sent: Draft) => {
      const body = requestOf(base, sent);
      return definition
        ? api<Definition>(`${path}/${definition.id}`, { method: 'PATCH', body })
        : api<Definition>(path, { method: 'POST', body });
    },
    onSuccess: async (stored, sent) => {
      queries.setQueryData(['definition', stored.id], stored);
      begin(stored, sent);
      const refreshed = changed();
      if (!definition) {
        toast(t('Agent “{name}” created.', { name: stored.name }));
        await navigate({ search: { agent: stored.id }, ignoreBlocker: true });
      }
      await refreshed;
    },
  });
  const remove = useMutation({
    mutationFn: () => api(`${path}/${definition?.id}`, { method: 'DELETE' }),
    onSuccess: async () => {
      await navigate({ search: {}, ignoreBlocker: true });
      await changed();
    },
  });
  useBlocker({
    shouldBlockFn: async () =>
      !(await confirmed({
        title: t('Discard unsaved changes?'),
        detail: base.name
          ? t('The changes of the agent “{name}” are not saved.', { name: base.name })
          : t('The changes of the new agent are not saved.'),
        action: t('Discard changes'),
      })),
    disabled: !isUnsaved,
    enableBeforeUnload: isUnsaved,
  });

  const fault = placed(broken ?? faultOf(save.error), draft);
  const isElsewhere = save.isError && fault === null;
  const refusal = broken ?? save.error;
  useEffect(() => {
    if (refusal) form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [refusal]);

  const set =
    <Key extends keyof Draft>(key: Key) =>
    (value: Draft[Key]) =>
      setDraft((now) => ({ ...now, [key]: value }));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    try {
      requestOf(base, draft);
    } catch (error) {
      const why = error instanceof Error ? error.message : '';
      setBroken({ field: JSON_PART, message: t('The configuration is not valid JSON: {why}', { why }) });
      return;
    }
    setBroken(null);
    save.mutate(draft);
  };
  const ofConfig = { config: draft.config, flowType: draft.flowType, fault, onChange: set('config') };

  return (
    <form ref={form} className="editor" onSubmit={submit}>
      <Field label={t('Name')} field="name" fault={fault}>
        {(control) => (
          <input
            {...control}
            value={draft.name}
            required
            maxLength={NAME_MAX_CHARS}
            onChange={(event) => set('name')(event.target.value)}
          />
        )}
      </Field>
      <Field label={t('Description')} field="description" fault={fault}>
        {(control) => (
          <input {...control} value={draft.description} onChange={(event) => set('description')(event.target.value)} />
        )}
      </Field>
      <Field label={t('System prompt')} field="systemPrompt" fault={fault}>
        {(control) => (
          <textarea
            {...control}
            rows={8}
            maxLength={PROMPT_MAX_CHARS}
            value={draft.systemPrompt}
            onChange={(event) => set('systemPrompt')(event.target.value)}
          />
        )}
      </Field>
      <ModelField value={draft.model} fault={fault} onChange={set('model')} />
      <ModelSettings draft={draft} fault={fault} set={set} />
      <ToolsField tools={draft.tools} fault={fault} onChange={set('tools')} />
      <div className="fields">
        <Field label={t('Flow')} field="flowType" fault={fault}>
          {(control) => (
            <select {...control} value={draft.flowType} onChange={(event) => set('flowType')(event.target.value)}>
              {FLOWS.map((flow) => (
                <option key={flow} value={flow}>
                  {t(flow)}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label={t('Visibility')} field="visibility" fault={fault}>
          {(control) => (
            <select {...control} value={draft.visibility} onChange={(event) => set('visibility')(event.target.value)}>
              {VISIBILITIES.map((visibility) => (
                <option key={visibility} value={visibility}>
                  {t(visibility)}
                </option>
              ))}
            </select>
          )}
        </Field>
        <label>
          <input
            type="checkbox"
            checked={draft.isDefault}
            onChange={(event) => set('isDefault')(event.target.checked)}
          />{' '}
          {t('Project default')}
        </label>
      </div>
      <ConfigFields settings={FLOW_SETTINGS} {...ofConfig} />
      <h3>{t('Limits of a run')}</h3>
      <Limits draft={draft} fault={fault} set={set} />
      <h3>{t('Limits of a run with all its sub-agents')}</h3>
      <ConfigFields settings={TREE_SETTINGS} {...ofConfig} />
      <h3>{t('Behaviour')}</h3>
      <ConfigFields settings={BEHAVIOUR_SETTINGS} {...ofConfig} />
      <Field
        label={t('Other configuration (JSON)')}
        field={JSON_PART}
        fault={fault}
        hint={t('Settings without a field above, such as outputSchema, and entries of your programs.')}
      >
        {(control) => (
          <textarea
            {...control}
            name="config"
            rows={5}
            spellCheck={false}
            value={draft.config.rest}
            onChange={(event) => set('config')({ ...draft.config, rest: event.target.value })}
          />
        )}
      </Field>
      {isOutdated && isUnsaved ? (
        <p className="note" role="status">
          {t(
            'Another user saved version {version} of this agent. If you save, only the fields that you changed are overwritten.',
            { version: String(definition.version) },
          )}
        </p>
      ) : null}
      {isElsewhere ? <ErrorNote error={save.error} /> : null}
      {remove.isError ? <ErrorNote error={remove.error} /> : null}
      <div className="controls">
        <button type="submit" className="primary" disabled={save.isPending || (definition !== null && !isUnsaved)}>
          {definition ? t('Save') : t('Create agent')}
        </button>
        {definition && isUnsaved ? (
          <button type="button" disabled={save.isPending} onClick={() => setDraft(base)}>
            {t('Undo changes')}
          </button>
        ) : null}
        <span className="quiet" role="status">
          {isUnsaved && definition ? t('Unsaved changes.') : save.isSuccess ? t('Saved.') : ''}
        </span>
        <span className="fill" />
        {definition ? (
          <button
            type="button"
            onClick={() =>
              void confirmed({
                title: t('Delete the agent “{name}”?', { name: definition.name }),
                detail: t('An agent that chats use can’t be deleted.'),
                action: t('Delete agent'),
              }).then((isAgreed) => isAgreed && remove.mutate())
            }
          >
            {t('Delete')}
          </button>
        ) : null}
      </div>
    </form>
  );
}
