// The lists of conversations that are shown without a search: all of them by groups, and the archived ones.
import { Link } from '@tanstack/react-router';
import { ArrowLeft } from 'lucide-react';
import { More } from '../../api/pages';
import { IconButton } from '../../ui/Button';
import { t } from '../../ui/language';
import { ErrorNote } from '../../ui/parts';
import { byDays } from '../days';
import { keptChats } from '../kept';
import type { Unsent } from '../outbox';
import { isNewPlace } from '../places';
import { shownTitle } from '../titles';
import { Group, useList } from './ChatRows';
import { type Folder, useChats, useFolders } from './chats';
import { Folders } from './Folders';

interface AllChatsProps {
  /** Messages that could not be sent. */
  unsent: readonly Unsent[];
  onRenameFolder: (folder: Folder) => void;
  /** The lists have changed. */
  onChanged: () => Promise<void>;
}

/** Pinned conversations, whatever their folder; then the folders; then those in no folder, by day. */
export function AllChats({ unsent, onRenameFolder, onChanged }: AllChatsProps) {
  const { marks } = useList();
  const pinned = useChats({ pinned: 'true' });
  const others = useChats({ pinned: 'false', folder: 'none' });
  const folders = useFolders();
  const error = others.reading.error ?? pinned.reading.error ?? folders.error;
  const isEmpty =
    others.reading.isSuccess &&
    others.items.length === 0 &&
    pinned.reading.isSuccess &&
    pinned.items.length === 0 &&
    folders.data?.length === 0;
  return (
    <>
      {error ? <ErrorNote error={error} /> : null}
      <Begun unsent={unsent} />
      <Group name={t('Pinned')} items={pinned.items} />
      <More of={pinned} label={t('Load more pinned chats')} />
      <Folders folders={folders.data ?? []} onRename={onRenameFolder} onChanged={onChanged} />
      {byDays(others.items, marks).map(({ name, items }) => (
        <Group key={name} name={name} items={items} />
      ))}
      <p className="quiet" role="status">
        {isEmpty ? t('Your chats will be listed here.') : ''}
      </p>
      <More of={others} />
    </>
  );
}

/** The conversations that this browser has copies of, for the time in which the server can't be reached. */
export function KeptChats({ words }: { words: string }) {
  const { marks } = useList();
  const items = keptChats().filter((chat) => shownTitle(chat).toLowerCase().includes(words.toLowerCase()));
  return byDays(items, marks).map(({ name, items }) => <Group key={name} name={name} items={items} />);
}

/** Each conversation that the server does not have yet, by its first message. */
function Begun({ unsent }: { unsent: readonly Unsent[] }) {
  const { stop, actions } = useList();
  const begun = unsent.filter(
    ({ place }, nth) => isNewPlace(place) && unsent.findIndex((one) => one.place === place) === nth,
  );
  if (begun.length === 0) return null;
  return (
    <ul aria-label={t('Not sent')}>
      {begun.map(({ place, message }) => (
        <li key={place} data-row={place} onFocus={() => actions.onFocus(place)}>
          <Link to="/new/$place" params={{ place }} tabIndex={place === stop ? 0 : -1}>
            <span className="mark failed" role="img" aria-label={t('Not sent')} />
            <span dir="auto" className="name">
              {message}
            </span>
            <span className="quiet">{t('Not sent')}</span>
          </Link>
        </li>
      ))}
    </ul>
  );
}

export function ArchivedChats({ onBack }: { onBack: () => void }) {
  const { marks } = useList();
  const archived = useChats({ archived: 'only' });
  const { isSuccess, error } = archived.reading;
  return (
    <section aria-label={t('Archived chats')}>
      <div className="list-title">
        <IconButton icon={ArrowLeft} label={t('Back to all chats')} onClick={onBack} />
        <h3>{t('Archived')}</h3>
      </div>
      {error ? <ErrorNote error={error} /> : null}
      {byDays(archived.items, marks).map(({ name, items }) => (
        <Group key={name} name={name} items={items} />
      ))}
      <p className="quiet" role="status">
        {isSuccess && archived.items.length === 0 ? t('No archived chats.') : ''}
      </p>
      <More of={archived} />
    </section>
  );
}
