// Shows an evaluation set: its cases, or its evaluations. The address names the section.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { Pencil, Play, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { api } from '../api/http';
import { useMe } from '../api/me';
import { confirmed } from '../ui/Dialog';
import { LoadFailed } from '../ui/LoadFailed';
import { t } from '../ui/language';
import { ErrorNote, ReadOnlyKey, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { toast } from '../ui/toasts';
import { Cases } from './Cases';
import { Evaluations } from './Evaluations';
import { type EvaluationSet, useSetsPath } from './evaluations';
import { RunForm } from './RunForm';
import { SetForm } from './SetForm';
import './evaluations.css';

export function SetView() {
  const { id } = useParams({ from: '/evaluations/$id' });
  const { part } = useSearch({ from: '/evaluations/$id' });
  const mayWrite = useMe().scopes.includes('write');
  const path = `${useSetsPath()}/${id}`;
  const set = useQuery({ queryKey: ['evaluation-set', id], queryFn: () => api<EvaluationSet>(path) });
  useTitle(set.data?.name ?? t('Evaluation set'));
  if (set.isPending) return <Waiting what={t('the evaluation set')} />;
  // A failed refresh takes nothing away that is being read.
  if (!set.data) return <LoadFailed reading={set} what={t('This evaluation set')} />;
  const { name, description } = set.data;
  const of = { set: set.data, path, mayWrite };
  return (
    <main id="main" className="page wide">
      <div className="title">
        <h1 dir="auto">{name}</h1>
        {mayWrite ? <SetActions set={set.data} path={path} /> : null}
        {description ? (
          <p dir="auto" className="about-page quiet">
            {description}
          </p>
        ) : null}
      </div>
      {mayWrite ? null : (
        <p className="note quiet">
          <ReadOnlyKey action={t('Changing and running evaluations')} />
        </p>
      )}
      <nav className="parts" aria-label={t('Sections of {name}', { name })}>
        <Link to="/evaluations/$id" params={{ id }} search={{}} activeOptions={{ exact: true }}>
          {t('Cases')}
        </Link>
        <Link to="/evaluations/$id" params={{ id }} search={{ part: 'evaluations' }} activeOptions={{ exact: true }}>
          {t('Evaluations')}
        </Link>
      </nav>
      {part === 'evaluations' ? <Evaluations {...of} /> : <Cases {...of} />}
    </main>
  );
}

function SetActions({ set, path }: { set: EvaluationSet; path: string }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [open, setOpen] = useState<'run' | 'edit' | null>(null);
  const close = () => setOpen(null);
  const remove = useMutation({
    mutationFn: () => api(path, { method: 'DELETE' }),
    onSuccess: async () => {
      toast(t('Deleted “{name}”.', { name: set.name }));
      await navigate({ to: '/evaluations' });
      queries.removeQueries({ queryKey: ['evaluation-set', set.id] });
      await queries.invalidateQueries({ queryKey: ['evaluation-sets'] });
    },
  });
  const ask = async () => {
    const isAgreed = await confirmed({
      title: t('Delete “{name}”?', { name: set.name }),
      detail: t('Its cases and evaluations are deleted too. Their workflows stay. This can’t be undone.'),
      action: t('Delete evaluation set'),
    });
    if (isAgreed) remove.mutate();
  };
  return (
    <>
      <div className="actions">
        <button
          type="button"
          className="primary"
          disabled={set.cases === 0}
          title={set.cases === 0 ? t('Add a case first.') : undefined}
          onClick={() => setOpen('run')}
        >
          <Play className="icon" /> {t('Run evaluation')}
        </button>
        <button type="button" onClick={() => setOpen('edit')}>
          <Pencil className="icon" /> {t('Edit')}
        </button>
        <button type="button" disabled={remove.isPending} onClick={() => void ask()}>
          <Trash2 className="icon" /> {t('Delete')}
        </button>
      </div>
      {remove.isError ? <ErrorNote error={remove.error} /> : null}
      {open === 'run' ? <RunForm set={set} path={path} onClose={close} /> : null}
      {open === 'edit' ? <SetForm set={set} onClose={close} /> : null}
    </>
  );
}
