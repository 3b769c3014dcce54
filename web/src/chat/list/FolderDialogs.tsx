// The dialogs that name a folder, and that move conversations to one.
import { useQueryClient } from '@tanstack/react-query';
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from 'react';
import { Dialog } from '../../ui/Dialog';
import { t } from '../../ui/language';
import { ErrorNote } from '../../ui/parts';
import { saveFolder, useFolders } from './chats';

/** Maximum length of a name, in characters. */
const NAME_MAX = 100;

interface FormProps {
  title: string;
  action: string;
  /** What is done; if it fails, the dialog stays open and shows why. */
  onSubmit: () => Promise<unknown>;
  onClose: () => void;
  children: ReactNode;
}

function FormDialog({ title, action, onSubmit, onClose, children }: FormProps) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const form = useRef<HTMLFormElement>(null);
  // Opening the dialog has focused its first button.
  useEffect(() => {
    const field = form.current?.querySelector<HTMLElement>('input:checked') ?? form.current?.querySelector('input');
    field?.focus();
  }, []);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    setError(null);
    try {
      await onSubmit();
      onClose();
    } catch (refusal) {
      setError(refusal);
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} className="narrow" onClose={onClose}>
      <form ref={form} className="folder-form" onSubmit={(event) => void submit(event)}>
        {children}
        {error ? <ErrorNote error={error} /> : null}
        <div className="controls">
          <button type="button" onClick={onClose}>
            {t('Cancel')}
          </button>
          <button type="submit" className="primary" disabled={isBusy}>
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface NameProps {
  /** The folder that is renamed; none: a new one. */
  folder?: { id: string; name: string } | undefined;
  onSaved: () => Promise<unknown>;
  onClose: () => void;
}

export function NameFolder({ folder, onSaved, onClose }: NameProps) {
  const [name, setName] = useState(folder?.name ?? '');
  return (
    <FormDialog
      title={folder ? t('Rename folder') : t('New folder')}
      action={folder ? t('Rename folder') : t('Create folder')}
      onSubmit={async () => {
        await saveFolder(name.trim(), folder?.id);
        await onSaved();
      }}
      onClose={onClose}
    >
      <NameField label={t('Name')} name={name} onChange={setName} />
    </FormDialog>
  );
}

interface NameFieldProps {
  label: string;
  name: string;
  onChange: (name: string) => void;
}

function NameField({ label, name, onChange }: NameFieldProps) {
  return (
    <label className="name">
      {label}
      <input
        required
        pattern=".*\S.*"
        title={t('Enter a name')}
        maxLength={NAME_MAX}
        value={name}
        onChange={(event) => onChange(event.target.value)}
      />
    </label>
  );
}

const NO_FOLDER = '';
const NEW_FOLDER = 'new';

interface MoveProps {
  title: string;
  /** The folder that they are in; null: none, or several. */
  from: string | null;
  onMove: (folderId: string | null) => Promise<unknown>;
  onClose: () => void;
}

export function MoveToFolder({ title, from, onMove, onClose }: MoveProps) {
  const queries = useQueryClient();
  const folders = useFolders();
  const [choice, setChoice] = useState(from ?? NO_FOLDER);
  const [name, setName] = useState('');
  const move = async () => {
    let id = choice;
    if (choice === NEW_FOLDER) {
      id = (await saveFolder(name.trim())).id;
      await queries.invalidateQueries({ queryKey: ['conversations', 'folders'] });
      // If the move fails, the next attempt does not create the folder again.
      setChoice(id);
      setName('');
    }
    await onMove(id === NO_FOLDER ? null : id);
  };
  const option = (value: string, label: string) => (
    <label key={value} className="option">
      <input type="radio" name="folder" value={value} checked={choice === value} onChange={() => setChoice(value)} />
      <span dir="auto">{label}</span>
    </label>
  );
  return (
    <FormDialog title={title} action={t('Move')} onSubmit={move} onClose={onClose}>
      {folders.error ? <ErrorNote error={folders.error} /> : null}
      <fieldset className="folder-options">
        <legend className="hidden">{t('Folder')}</legend>
        {option(NO_FOLDER, t('No folder'))}
        {(folders.data ?? []).map(({ id, name }) => option(id, name))}
        {option(NEW_FOLDER, t('New folder'))}
      </fieldset>
      {choice === NEW_FOLDER ? <NameField label={t('Name of the new folder')} name={name} onChange={setName} /> : null}
    </FormDialog>
  );
}
