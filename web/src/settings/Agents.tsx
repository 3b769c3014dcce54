// Edits agent definitions: their prompts, tools and limits.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { type FormEvent, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { More, usePages } from '../api/pages';
import { confirmed } from '../ui/Dialog';
import { ErrorNote, Waiting } from '../ui/parts';
import { TestRun } from './TestRun';

type Definition = Schemas['DefinitionBody'];
type Request = Schemas['DefinitionRequest'];

const FLOWS = ['single', 'sequential', 'loop', 'parallel', 'discussion', 'function'];
const VISIBILITIES = ['project', 'external', 'internal'];

export function Agents() {
  const me = useMe();
  const path = `/api/admin/projects/${me.projectId}/agent-definitions`;
  const [chosen, choose] = useState<string | null>(null);
  const [shown, show] = useState(false);
  const all = usePages<Definition>(['definitions', shown], path, {
    limit: 100,
    narrowedBy: { visibility: shown ? 'all' : undefined },
  });
  if (all.reading.isPending) return <Waiting what="agents" />;
  if (all.reading.isError) return <ErrorNote error={all.reading.error} />;
  const definition = all.items.find((one) => one.id === chosen) ?? null;
  return (
    <div className="split">
      <div>
        <ul className="choices">
          {all.items.map((one) => (
            <li key={one.id}>
              <button type="button" className="plain" aria-pressed={one.id === chosen} onClick={() => choose(one.id)}>
                {one.name} {one.isDefault ? <span className="quiet">default</span> : null}
              </button>
            </li>
          ))}
        </ul>
        <More of={all} />
        <label>
          <input type="checkbox" checked={shown} onChange={(event) => show(event.target.checked)} /> Show internal
          agents
        </label>
        <button type="button" onClick={() => choose('')}>
          <Plus className="icon" /> New agent
        </button>
      </div>
      {chosen === null ? (
        <p className="quiet">Select an agent, or create one.</p>
      ) : (
        <div className="beside">
          <Editor key={chosen} path={path} definition={definition} onDone={(id) => choose(id)} />
          {definition ? <TestRun key={`try ${chosen}`} agentId={definition.id} /> : null}
        </div>
      )}
    </div>
  );
}

/** A number that was typed; an empty field is none. */
function number(value: FormDataEntryValue | null): number | null {
  return value === null || value === '' ? null : Number(value);
}

function Editor({
  path,
  definition,
  onDone,
}: {
  path: string;
  definition: Definition | null;
  onDone: (id: string | null) => void;
}) {
  const queries = useQueryClient();
  const [broken, setBroken] = useState<string | null>(null);
  const changed = async () => {
    await queries.invalidateQueries({ queryKey: ['definitions'] });
    await queries.invalidateQueries({ queryKey: ['agents'] });
  };
  const save = useMutation({
    mutationFn: (body: Request) =>
      definition
        ? api<Definition>(`${path}/${definition.id}`, { method: 'PATCH', body })
        : api<Definition>(path, { method: 'POST', body }),
    onSuccess: async ({ id }) => {
      await changed();
      onDone(id);
    },
  });
  const remove = useMutation({
    mutationFn: () => api(`${path}/${definition?.id}`, { method: 'DELETE' }),
    onSuccess: async () => {
      onDone(null);
      await changed();
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const text = (name: string) => String(form.get(name) ?? '');
    let config: unknown;
    try {
      config = JSON.parse(text('config') || '{}');
      setBroken(null);
    } catch (error) {
      setBroken(`The configuration is not valid JSON: ${error instanceof Error ? error.message : ''}`);
      return;
    }
    const model = text('model').trim();
    const before = (definition?.model ?? {}) as Record<string, unknown>;
    const given = {
      name: text('name').trim(),
      description: text('description'),
      systemPrompt: text('systemPrompt'),
      tools: text('tools')
        .split(/[\s,]+/)
        .filter((tool) => tool !== ''),
      flowType: text('flowType'),
      visibility: text('visibility'),
      isDefault: form.get('isDefault') !== null,
      config,
    };
    const optional = {
      model: model === '' ? null : { ...before, name: model },
      maxSteps: number(form.get('maxSteps')),
      defaultTimeout: number(form.get('defaultTimeout')),
      maxDepth: number(form.get('maxDepth')),
    };
    const filled = Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== null));
    save.mutate({ ...given, ...filled } as Request);
  };
  const modelName = (definition?.model as { name?: string } | null | undefined)?.name ?? '';
  return (
    <form className="editor" onSubmit={submit}>
      <label>
        Name <input name="name" defaultValue={definition?.name ?? ''} required />
      </label>
      <label>
        Description <input name="description" defaultValue={definition?.description ?? ''} />
      </label>
      <label>
        System prompt <textarea name="systemPrompt" rows={8} defaultValue={definition?.systemPrompt ?? ''} />
      </label>
      <label>
        Model{' '}
        <input
          name="model"
          defaultValue={modelName}
          placeholder="provider:model. Leave empty for the deployment default."
        />
      </label>
      <label>
        Tools{' '}
        <textarea
          name="tools"
          rows={3}
          defaultValue={definition?.tools.join('\n') ?? ''}
          placeholder="Names or globs, one per line. Leave empty for none."
        />
      </label>
      <div className="fields">
        <label>
          Flow{' '}
          <select name="flowType" defaultValue={definition?.flowType ?? 'single'}>
            {FLOWS.map((flow) => (
              <option key={flow}>{flow}</option>
            ))}
          </select>
        </label>
        <label>
          Visibility{' '}
          <select name="visibility" defaultValue={definition?.visibility ?? 'project'}>
            {VISIBILITIES.map((visibility) => (
              <option key={visibility}>{visibility}</option>
            ))}
          </select>
        </label>
        <label>
          Maximum steps{' '}
          <input
            name="maxSteps"
            type="number"
            min={1}
            defaultValue={definition?.maxSteps ?? ''}
            placeholder="No limit"
          />
        </label>
        <label>
          Timeout (seconds){' '}
          <input
            name="defaultTimeout"
            type="number"
            min={1}
            defaultValue={definition?.defaultTimeout ?? ''}
            placeholder="300"
          />
        </label>
        <label>
          Maximum depth{' '}
          <input
            name="maxDepth"
            type="number"
            min={0}
            max={2}
            defaultValue={definition?.maxDepth ?? ''}
            placeholder="2"
          />
        </label>
        <label>
          <input name="isDefault" type="checkbox" defaultChecked={definition?.isDefault ?? false} /> Project default
        </label>
      </div>
      <label>
        Configuration (JSON){' '}
        <textarea
          name="config"
          rows={5}
          spellCheck={false}
          defaultValue={JSON.stringify(definition?.config ?? {}, null, 2)}
        />
      </label>
      {broken ? <p className="note bad">{broken}</p> : null}
      {save.isError ? <ErrorNote error={save.error} /> : null}
      {remove.isError ? <ErrorNote error={remove.error} /> : null}
      <div className="controls">
        <button type="submit" className="primary" disabled={save.isPending}>
          {definition ? 'Save' : 'Create agent'}
        </button>
        {save.isSuccess ? (
          <span className="quiet" role="status">
            Saved.
          </span>
        ) : null}
        <span className="fill" />
        {definition ? (
          <button
            type="button"
            onClick={() =>
              void confirmed({
                title: `Delete the agent “${definition.name}”?`,
                detail: 'Chats with it keep their messages.',
                action: 'Delete agent',
              }).then((isAgreed) => isAgreed && remove.mutate())
            }
          >
            Delete
          </button>
        ) : null}
      </div>
    </form>
  );
}
