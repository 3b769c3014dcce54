// Lists the projects of the work graph, newest first.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { FolderKanban } from 'lucide-react';
import type { FormEvent } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { More, usePages } from '../api/pages';
import { Empty } from '../ui/Empty';
import { Failed } from '../ui/Failed';
import { rich, t } from '../ui/language';
import { Ago, ErrorNote, ReadOnlyKey, State, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { Wide } from '../ui/Wide';
import type { Entity } from './board';
import { FROM_HERE } from './moves';
import './work.css';

export function ProjectList() {
  useTitle(t('Projects'));
  const me = useMe();
  const mayWrite = me.scopes.includes('write');
  const projects = usePages<Entity>(['work-projects'], '/api/onto/projects');
  return (
    <main id="main" className="page">
      <h1>{t('Projects')}</h1>
      {projects.reading.isError ? <Failed reading={projects.reading} /> : null}
      {projects.reading.isPending ? <Waiting what={t('projects')} /> : null}
      {projects.reading.isSuccess && projects.items.length === 0 ? (
        <Empty icon={FolderKanban} title={t('No projects yet')}>
          {rich('A project has a board of tasks, and documents. Agents create projects with {tool}.', {
            tool: <code>create_onto_project</code>,
          })}{' '}
          {mayWrite ? t('Enter a name to create one.') : <ReadOnlyKey action={t('Creating projects')} />}
        </Empty>
      ) : null}
      {mayWrite ? <NewProject /> : null}
      {projects.items.length > 0 ? (
        <Wide>
          <table>
            <thead>
              <tr>
                <th scope="col">{t('Project')}</th>
                <th scope="col">{t('State')}</th>
                <th scope="col">{t('Updated')}</th>
              </tr>
            </thead>
            <tbody>
              {projects.items.map((project) => (
                <tr key={project.id} className="leads">
                  <td>
                    <Link dir="auto" to="/work/$projectId" params={{ projectId: project.id }} className="row-link">
                      {project.name}
                    </Link>
                  </td>
                  <td>
                    <State state={project.stateKey} />
                  </td>
                  <td>
                    <Ago at={project.updatedAt} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      ) : null}
      <More of={projects} />
    </main>
  );
}

function NewProject() {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const make = useMutation({
    mutationFn: (name: string) =>
      api<Schemas['InstantiatedBody']>('/api/onto/projects/instantiate', {
        method: 'POST',
        body: { project: { name } },
        headers: FROM_HERE,
      }),
    onSuccess: async ({ project }) => {
      await queries.invalidateQueries({ queryKey: ['work-projects'] });
      await navigate({ to: '/work/$projectId', params: { projectId: project.id } });
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    make.mutate(String(new FormData(event.currentTarget).get('name')).trim());
  };
  return (
    <>
      <form className="search" onSubmit={submit}>
        <input
          name="name"
          required
          pattern=".*\S.*"
          aria-label={t('New project name')}
          placeholder={t('New project name')}
        />
        <button type="submit" className="primary" disabled={make.isPending}>
          {t('Create project')}
        </button>
      </form>
      {make.isError ? <ErrorNote error={make.error} /> : null}
    </>
  );
}
