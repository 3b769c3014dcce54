// Renames and deletes a project.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { api, ifMatch } from '../api/http';
import { confirmed, Dialog } from '../ui/Dialog';
import { t } from '../ui/language';
import { ErrorNote } from '../ui/parts';
import { toast } from '../ui/toasts';
import { type Entity, graphKey, projectKey } from './board';
import { isConflict } from './documents/document';
import { FROM_HERE } from './moves';

export function ProjectActions({ project }: { project: Entity }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [isRenaming, setRenaming] = useState(false);
  const remove = useMutation({
    mutationFn: () => api(`/api/onto/projects/${project.id}`, { method: 'DELETE', headers: FROM_HERE }),
    onSuccess: async () => {
      toast(t('Deleted “{name}”.', { name: project.name }));
      await navigate({ to: '/work' });
      queries.removeQueries({ queryKey: graphKey(project.id) });
      queries.removeQueries({ queryKey: projectKey(project.id) });
      await queries.invalidateQueries({ queryKey: ['work-projects'] });
    },
  });
  const ask = async () => {
    const isAgreed = await confirmed({
      title: t('Delete “{name}”?', { name: project.name }),
      detail: t('Its tasks, documents, plans and goals are deleted too. This can’t be undone.'),
      action: t('Delete project'),
    });
    if (isAgreed) remove.mutate();
  };
  return (
    <>
      <div className="actions">
        <button type="button" onClick={() => setRenaming(true)}>
          {t('Rename project')}
        </button>
        <button type="button" disabled={remove.isPending} onClick={() => void ask()}>
          {t('Delete project')}
        </button>
      </div>
      {remove.isError ? <ErrorNote error={remove.error} /> : null}
      {isRenaming ? <Rename project={project} onClose={() => setRenaming(false)} /> : null}
    </>
  );
}

function Rename({ project, onClose }: { project: Entity; onClose: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState(project.name);
  /** The version that the change is based on: after a conflict the one that was found. */
  const [version, setVersion] = useState(project.version);
  const path = `/api/onto/projects/${project.id}`;
  const rename = useMutation({
    mutationFn: () =>
      api<Entity>(path, {
        method: 'PATCH',
        body: { name: name.trim() },
        headers: { ...ifMatch(version), ...FROM_HERE },
      }),
    onSuccess: async () => {
      onClose();
      await Promise.all(
        [graphKey(project.id), projectKey(project.id), ['work-projects']].map((queryKey) =>
          queries.invalidateQueries({ queryKey }),
        ),
      );
    },
    onError: async (error) => {
      if (isConflict(error))
        await api<Entity>(path).then(
          (now) => setVersion(now.version),
          () => undefined,
        );
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    rename.mutate();
  };
  return (
    <Dialog title={t('Rename project')} className="narrow" onClose={onClose}>
      <form className="editor" onSubmit={submit}>
        <label>
          {t('Name')}{' '}
          <input autoFocus required pattern=".*\S.*" value={name} onChange={(event) => setName(event.target.value)} />
        </label>
        {isConflict(rename.error) ? (
          <p className="note bad" role="alert">
            {t(
              'The project was not renamed: another user changed it in the meantime. Click “Save” again to rename the current version.',
            )}
          </p>
        ) : rename.isError ? (
          <ErrorNote error={rename.error} />
        ) : null}
        <div className="controls">
          <button type="submit" className="primary" disabled={rename.isPending}>
            {t('Save')}
          </button>
          <button type="button" onClick={onClose}>
            {t('Cancel')}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
