// The saved views above the list of runs: links to filters that were given a name. The shown one can be renamed and deleted.
import { Link } from '@tanstack/react-router';
import { Bookmark, Pencil, Trash2 } from 'lucide-react';
import { type FormEvent, useEffect, useId, useRef, useState } from 'react';
import { IconButton } from '../ui/Button';
import { t } from '../ui/language';
import { isFiltered, isSame, type RunFilters } from './filters';
import { deleteView, renameView, saveView, useSavedViews, VIEWS_MAX } from './savedViews';

const NAME_MAX_CHARS = 60;

export function SavedViews({ filters }: { filters: RunFilters }) {
  const views = useSavedViews();
  const shown = views.find((view) => isSame(view.filters, filters));
  /** The filters that are being named; their view may be new. */
  const [named, setNamed] = useState<RunFilters | null>(null);
  const bar = useRef<HTMLElement>(null);
  /** Has the focus after the next render. */
  const focused = useRef('');
  useEffect(() => {
    if (focused.current === '') return;
    bar.current?.querySelector<HTMLElement>(focused.current)?.focus();
    focused.current = '';
  });
  const close = () => {
    setNamed(null);
    focused.current = shown ? '.rename' : '.save';
  };
  const submit = (name: string) => {
    setNamed(null);
    focused.current = '[aria-current]';
    if (shown) renameView(shown.name, name);
    else saveView({ name, filters });
  };
  const isNaming = named !== null && isSame(named, filters);
  return (
    <nav ref={bar} className="saved-views" aria-label={t('Saved views')}>
      <div className="parts">
        <Link to="/runs" search={{}} activeOptions={{ exact: true }}>
          {t('All runs')}
        </Link>
        {views.map((view) => (
          <Link key={view.name} dir="auto" to="/runs" search={view.filters} activeOptions={{ exact: true }}>
            {view.name}
          </Link>
        ))}
      </div>
      {isNaming ? (
        <NameForm
          name={shown?.name ?? ''}
          taken={views.map(({ name }) => name).filter((name) => name !== shown?.name)}
          onSubmit={submit}
          onClose={close}
        />
      ) : shown ? (
        <>
          <IconButton
            icon={Pencil}
            label={t('Rename view')}
            name={t('Rename view: {name}', { name: shown.name })}
            className="rename"
            onClick={() => setNamed(filters)}
          />
          <IconButton
            icon={Trash2}
            label={t('Delete view')}
            name={t('Delete view: {name}', { name: shown.name })}
            onClick={() => {
              focused.current = '.save';
              deleteView(shown.name);
            }}
          />
        </>
      ) : isFiltered(filters) ? (
        <button
          type="button"
          className="small save"
          disabled={views.length >= VIEWS_MAX}
          title={
            views.length >= VIEWS_MAX ? t('Delete a view first: {max} are the maximum.', { max: VIEWS_MAX }) : undefined
          }
          onClick={() => setNamed(filters)}
        >
          <Bookmark className="icon" /> {t('Save view')}
        </button>
      ) : null}
    </nav>
  );
}

interface NameFormProps {
  name: string;
  /** The names of the other views. */
  taken: readonly string[];
  onSubmit: (name: string) => void;
  onClose: () => void;
}

function NameForm({ name, taken, onSubmit, onClose }: NameFormProps) {
  const [words, setWords] = useState(name);
  const [problem, setProblem] = useState('');
  const id = useId();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const chosen = words.trim();
    if (chosen === '') setProblem(t('Enter a name.'));
    else if (taken.includes(chosen)) setProblem(t('Another view has this name. Enter a different one.'));
    else onSubmit(chosen);
  };
  return (
    <form onSubmit={submit} onKeyDown={({ key }) => key === 'Escape' && onClose()}>
      <input
        aria-label={t('Name of the view')}
        aria-invalid={problem !== ''}
        aria-describedby={id}
        autoFocus
        autoComplete="off"
        maxLength={NAME_MAX_CHARS}
        value={words}
        onChange={(event) => {
          setWords(event.currentTarget.value);
          setProblem('');
        }}
      />
      <button type="submit" className="primary">
        {t('Save')}
      </button>
      <button type="button" onClick={onClose}>
        {t('Cancel')}
      </button>
      <span id={id} role="status" className="bad">
        {problem}
      </span>
    </form>
  );
}
