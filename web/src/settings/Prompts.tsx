// Sets the custom prompts of all agents, and the routing of new conversations.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type { FormEvent, ReactNode } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { Failed } from '../ui/Failed';
import { t } from '../ui/language';
import { ErrorNote, Waiting } from '../ui/parts';

/** Longest custom prompt, in characters. */
const PROMPT_MAX_CHARS = 10_000;
/** The agent that new chats go to where nothing is known and nothing else is set. */
const TRIAGE = 'triage';

export function Prompts() {
  return (
    <>
      <CustomPrompts />
      <Routing />
    </>
  );
}

function CustomPrompts() {
  const me = useMe();
  const path = `/api/workspaces/${me.projectId}/custom-prompt`;
  const prompts = useQuery({ queryKey: ['custom-prompt'], queryFn: () => api<Schemas['CustomPrompt']>(path) });
  const save = useSaved(['custom-prompt'], (body: Schemas['CustomPromptRequest']) =>
    api(path, { method: 'PUT', body }),
  );
  if (prompts.isPending) return <Waiting what={t('prompts')} />;
  if (prompts.isError) return <Failed reading={prompts} />;
  const submit = (form: FormData) =>
    save.mutate({
      customPrompt: String(form.get('customPrompt') ?? ''),
      userPrompt: String(form.get('userPrompt') ?? ''),
    });
  return (
    <section>
      <h2>{t('Custom prompts')}</h2>
      <p className="quiet">{t('Added after the system prompt of every agent in the project.')}</p>
      <Form key={JSON.stringify(prompts.data)} save={save} onSubmit={submit}>
        <label>
          {t('For everyone in the project')}{' '}
          <textarea
            name="customPrompt"
            rows={6}
            maxLength={PROMPT_MAX_CHARS}
            defaultValue={prompts.data.customPrompt}
          />
        </label>
        <label>
          {t('For your own chats')}{' '}
          <textarea name="userPrompt" rows={4} maxLength={PROMPT_MAX_CHARS} defaultValue={prompts.data.userPrompt} />
        </label>
      </Form>
    </section>
  );
}

function Routing() {
  const me = useMe();
  const path = `/api/admin/projects/${me.projectId}/routing`;
  const routing = useQuery({ queryKey: ['routing'], queryFn: () => api<Schemas['RoutingBody']>(path) });
  const agents = useQuery({
    queryKey: ['agents'],
    queryFn: () => api<Schemas['AgentPage']>(`/api/projects/${me.projectId}/agents?limit=100`),
  });
  const save = useSaved(['routing'], (body: Schemas['RoutingRequest']) => api(path, { method: 'PUT', body }));
  if (routing.isPending || agents.isPending) return <Waiting what={t('routing')} />;
  if (routing.isError) return <Failed reading={routing} />;
  if (agents.isError) return <Failed reading={agents} />;
  const { percent, preferredAgent, triageAgent } = routing.data;
  const submit = (form: FormData) =>
    save.mutate({
      percent: Number(form.get('percent')),
      preferredAgent: String(form.get('preferredAgent') ?? '') || null,
      triageAgent: triageOf(String(form.get('triageAgent') ?? '').trim()),
    });
  return (
    <section>
      <h2>{t('Routing')}</h2>
      <p className="quiet">{t("Chooses the agent for new chats that don't name one.")}</p>
      <Form key={JSON.stringify(routing.data)} save={save} onSubmit={submit}>
        <label>
          {t('Preferred agent')}{' '}
          <select name="preferredAgent" defaultValue={preferredAgent ?? ''}>
            <option value="">{t('None')}</option>
            {agents.data.items.map(({ id, name }) => (
              <option key={id}>{name}</option>
            ))}
          </select>
        </label>
        <label>
          {t('Triage agent, for requests that match nothing else')}{' '}
          <input name="triageAgent" defaultValue={triageAgent} />
        </label>
        <label>
          {t('Share of new chats to route (%)')}{' '}
          <input name="percent" type="number" min={0} max={100} required defaultValue={percent} />
        </label>
      </Form>
    </section>
  );
}

/** null: the default, which a project need not have. */
function triageOf(name: string): string | null {
  return name === '' || name === TRIAGE ? null : name;
}

function useSaved<Body>(key: string[], put: (body: Body) => Promise<unknown>) {
  const queries = useQueryClient();
  return useMutation({ mutationFn: put, onSuccess: () => queries.invalidateQueries({ queryKey: key }) });
}

interface FormProps {
  save: { isPending: boolean; isSuccess: boolean; error: unknown };
  onSubmit: (form: FormData) => void;
  children: ReactNode;
}

function Form({ save, onSubmit, children }: FormProps) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    onSubmit(new FormData(event.currentTarget));
  };
  return (
    <form className="editor" onSubmit={submit}>
      {children}
      {save.error ? <ErrorNote error={save.error} /> : null}
      <div className="controls">
        <button type="submit" className="primary" disabled={save.isPending}>
          {t('Save')}
        </button>
        {save.isSuccess ? (
          <span className="quiet" role="status">
            {t('Saved.')}
          </span>
        ) : null}
      </div>
    </form>
  );
}
