// The folders in the list of conversations: each one can be opened, renamed and deleted.
import { useMutation } from '@tanstack/react-query';
import { ChevronDown, ChevronRight, Ellipsis, Pencil, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { api } from '../../api/http';
import * as localStore from '../../api/localStore';
import { More } from '../../api/pages';
import { IconButton } from '../../ui/Button';
import { confirmed } from '../../ui/Dialog';
import { t } from '../../ui/language';
import { Menu, MenuItem } from '../../ui/Menu';
import { ErrorNote } from '../../ui/parts';
import { toast } from '../../ui/toasts';
import { ChatRows, useList } from './ChatRows';
import { type Folder, useChats } from './chats';

/** The ids of the folders that are open, in this browser. */
const KEPT = 'folders.open';

function readOpen(): string[] {
  const kept = localStore.read(KEPT);
  return Array.isArray(kept) ? kept.filter((id) => typeof id === 'string') : [];
}

interface Props {
  folders: readonly Folder[];
  onRename: (folder: Folder) => void;
  /** The lists have changed. */
  onChanged: () => Promise<void>;
}

export function Folders({ folders, onRename, onChanged }: Props) {
  const { actions } = useList();
  const [open, setOpen] = useState(readOpen);
  const remove = useMutation({
    mutationFn: ({ id }: Folder) => api(`/api/conversation-folders/${id}`, { method: 'DELETE' }),
    onSuccess: async (_, { name }) => {
      toast(t('Folder “{name}” deleted.', { name }));
      await onChanged();
    },
  });
  const toggle = (id: string) => {
    const isOpen = open.includes(id);
    // Folders that were deleted are forgotten.
    const next = open.filter((one) => one !== id && folders.some((folder) => folder.id === one));
    if (!isOpen) next.push(id);
    setOpen(next);
    localStore.write(KEPT, next);
  };
  const askToRemove = async (folder: Folder) => {
    const count = folder.conversations;
    const detail =
      count === 0
        ? t('It contains no chats, apart from archived ones. Archived chats are kept, without a folder.')
        : t(
            '{count, plural, one {Its chat is kept, without a folder.} other {Its # chats are kept, without a folder.}} Only the folder is deleted.',
            { count },
          );
    const title = t('Delete the folder “{name}”?', { name: folder.name });
    const isAgreed = await confirmed({ title, detail, action: t('Delete folder') });
    actions.keepAt(folder.id);
    if (isAgreed) remove.mutate(folder);
  };
  return (
    <>
      {remove.isError ? <ErrorNote error={remove.error} /> : null}
      {folders.map((folder) => (
        <OneFolder
          key={folder.id}
          folder={folder}
          isOpen={open.includes(folder.id)}
          onToggle={() => toggle(folder.id)}
          onRename={() => onRename(folder)}
          onRemove={() => void askToRemove(folder)}
        />
      ))}
    </>
  );
}

interface OneFolderProps {
  folder: Folder;
  isOpen: boolean;
  onToggle: () => void;
  onRename: () => void;
  onRemove: () => void;
}

function OneFolder({ folder: { id, name }, isOpen, onToggle, onRename, onRemove }: OneFolderProps) {
  const { stop, actions } = useList();
  const tabIndex = id === stop ? 0 : -1;
  const Chevron = isOpen ? ChevronDown : ChevronRight;
  return (
    <section aria-label={t('Folder {name}', { name })}>
      <h3 className="folder" data-row={id} onFocus={() => actions.onFocus(id)}>
        <button
          type="button"
          className="side-link"
          title={name}
          aria-expanded={isOpen}
          tabIndex={tabIndex}
          onClick={onToggle}
        >
          <Chevron className="icon" />
          <span dir="auto" className="name">
            {name}
          </span>
        </button>
        <span className="row-actions">
          <Menu
            trigger={
              <IconButton
                icon={Ellipsis}
                label={t('Actions')}
                name={t('Actions for the folder {name}', { name })}
                tabIndex={tabIndex}
              />
            }
          >
            <MenuItem icon={Pencil} onSelect={onRename}>
              {t('Rename folder')}
            </MenuItem>
            <MenuItem icon={Trash2} isDangerous onSelect={onRemove}>
              {t('Delete folder')}
            </MenuItem>
          </Menu>
        </span>
      </h3>
      {isOpen ? <Contents id={id} /> : null}
    </section>
  );
}

function Contents({ id }: { id: string }) {
  const chats = useChats({ folder: id, pinned: 'false' });
  return (
    <div className="contents">
      {chats.reading.error ? <ErrorNote error={chats.reading.error} /> : null}
      {chats.reading.isSuccess && chats.items.length === 0 ? (
        <p className="quiet">{t('No chats in this folder.')}</p>
      ) : null}
      <ChatRows items={chats.items} />
      <More of={chats} />
    </div>
  );
}
