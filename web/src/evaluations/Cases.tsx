// Lists the cases of an evaluation set, and adds, edits and deletes them.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { MessageSquareQuote, Pencil, Plus, ThumbsUp, Trash2 } from 'lucide-react';
import { type FormEvent, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { More, usePages } from '../api/pages';
import { IconButton } from '../ui/Button';
import { confirmed, Dialog } from '../ui/Dialog';
import { Empty } from '../ui/Empty';
import { Failed } from '../ui/Failed';
import { t } from '../ui/language';
import { ErrorNote, Waiting } from '../ui/parts';
import { toast } from '../ui/toasts';
import { Wide } from '../ui/Wide';
import { Disclosure } from './Disclosure';
import { addedInWords, type Case, type EvaluationSet, refreshSet, shortOf } from './evaluations';
import { FromFeedback } from './FromFeedback';

/** The maximum length of a question and of an expected answer. */
const TEXT_MAX_CHARS = 16_000;

interface CasesProps {
  set: EvaluationSet;
  /** The set's. */
  path: string;
  mayWrite: boolean;
}

export function Cases({ set, path, mayWrite }: CasesProps) {
  const queries = useQueryClient();
  const [open, setOpen] = useState<Case | 'new' | 'feedback' | null>(null);
  const close = () => setOpen(null);
  const cases = usePages<Case>(['evaluation-cases', set.id], `${path}/cases`, { limit: 100 });
  const remove = useMutation({
    mutationFn: (id: string) => api(`${path}/cases/${id}`, { method: 'DELETE' }),
    onSuccess: () => refreshSet(queries, set.id),
  });
  const ask = async ({ id, question }: Case) => {
    const isAgreed = await confirmed({
      title: t('Delete this case?'),
      detail: t('“{question}” is removed from the set. This can’t be undone.', { question: shortOf(question) }),
      action: t('Delete case'),
    });
    if (isAgreed) remove.mutate(id);
  };
  return (
    <section aria-label={t('Cases')}>
      {mayWrite ? (
        <div className="controls case-actions">
          <button type="button" onClick={() => setOpen('new')}>
            <Plus className="icon" /> {t('Add case')}
          </button>
          <button type="button" onClick={() => setOpen('feedback')}>
            <ThumbsUp className="icon" /> {t('Add from feedback')}
          </button>
        </div>
      ) : null}
      {remove.isError ? <ErrorNote error={remove.error} /> : null}
      {cases.reading.isPending ? <Waiting what={t('cases')} /> : null}
      {cases.reading.isError ? <Failed reading={cases.reading} /> : null}
      {cases.reading.isSuccess && cases.items.length === 0 ? (
        <Empty icon={MessageSquareQuote} title={t('No cases yet')}>
          {t('A case is a question, with the expected answer if you know it. Runs can be added from their pages.')}
        </Empty>
      ) : null}
      {cases.items.length > 0 ? (
        <Wide>
          <table className="cases">
            <thead>
              <tr>
                <th scope="col">{t('Question')}</th>
                <th scope="col">{t('Expected answer')}</th>
                <th scope="col">{t('Source')}</th>
                {mayWrite ? (
                  <th scope="col">
                    <span className="hidden">{t('Actions')}</span>
                  </th>
                ) : null}
              </tr>
            </thead>
            <tbody>
              {cases.items.map((one) => (
                <CaseRow
                  key={one.id}
                  one={one}
                  onEdit={mayWrite ? () => setOpen(one) : undefined}
                  onDelete={mayWrite ? () => void ask(one) : undefined}
                />
              ))}
            </tbody>
          </table>
        </Wide>
      ) : null}
      <More of={cases} />
      {open === 'feedback' ? (
        <FromFeedback set={set} path={path} onClose={close} />
      ) : open ? (
        <CaseForm set={set} path={path} one={open === 'new' ? null : open} onClose={close} />
      ) : null}
    </section>
  );
}

interface CaseRowProps {
  one: Case;
  onEdit: (() => void) | undefined;
  onDelete: (() => void) | undefined;
}

/** A click on the question shows long texts whole. */
function CaseRow({ one: { question, expected, runId }, onEdit, onDelete }: CaseRowProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <tr>
      <th scope="row">
        <Disclosure question={question} isOpen={isOpen} onToggle={() => setOpen(!isOpen)} />
      </th>
      <td>
        {expected ? (
          <p dir="auto" className={isOpen ? 'whole' : 'clamped'}>
            {expected}
          </p>
        ) : (
          <span className="quiet">{t('none')}</span>
        )}
      </td>
      <td className="run-links">
        {runId ? (
          <Link to="/runs/$id" params={{ id: runId }}>
            {t('View run')}
          </Link>
        ) : (
          <span className="quiet">—</span>
        )}
      </td>
      {onEdit && onDelete ? (
        <td className="row-buttons">
          <IconButton
            icon={Pencil}
            label={t('Edit')}
            name={t('{action}: {what}', { action: t('Edit'), what: shortOf(question) })}
            onClick={onEdit}
          />
          <IconButton
            icon={Trash2}
            label={t('Delete')}
            name={t('{action}: {what}', { action: t('Delete'), what: shortOf(question) })}
            onClick={onDelete}
          />
        </td>
      ) : null}
    </tr>
  );
}

interface CaseFormProps {
  set: EvaluationSet;
  path: string;
  /** null: a new one. */
  one: Case | null;
  onClose: () => void;
}

function CaseForm({ set, path, one, onClose }: CaseFormProps) {
  const queries = useQueryClient();
  const [question, setQuestion] = useState(one?.question ?? '');
  const [expected, setExpected] = useState(one?.expected ?? '');
  const save = useMutation({
    mutationFn: async () => {
      const body = { question: question.trim(), expected: expected.trim() || null };
      if (one) return void (await api(`${path}/cases/${one.id}`, { method: 'PATCH', body }));
      const cases = { cases: [body] };
      toast(addedInWords(await api<Schemas['EvaluationCasesAdded']>(`${path}/cases`, { method: 'POST', body: cases })));
    },
    onSuccess: async () => {
      onClose();
      await refreshSet(queries, set.id);
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <Dialog title={one ? t('Edit case') : t('Add case')} onClose={onClose}>
      <form className="editor" onSubmit={submit}>
        <label>
          {t('Question')}{' '}
          <textarea
            autoFocus
            required
            rows={4}
            maxLength={TEXT_MAX_CHARS}
            value={question}
            onChange={(event) => setQuestion(event.target.value)}
          />
        </label>
        <label>
          {t('Expected answer')}{' '}
          <textarea
            rows={4}
            maxLength={TEXT_MAX_CHARS}
            placeholder={t('Optional')}
            value={expected}
            onChange={(event) => setExpected(event.target.value)}
          />
        </label>
        {save.isError ? <ErrorNote error={save.error} /> : null}
        <div className="controls">
          <button type="submit" className="primary" disabled={question.trim() === '' || save.isPending}>
            {one ? t('Save') : t('Add case')}
          </button>
          <button type="button" onClick={onClose}>
            {t('Cancel')}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
