// What can be done with the selected conversations, and what the last action did not do.
import { Archive, ArchiveRestore, FolderInput, Trash2 } from 'lucide-react';
import { t } from '../../ui/language';

interface BarProps {
  count: number;
  isArchive: boolean;
  /** What the last action did not do. */
  undone: readonly string[];
  onAll: () => void;
  onArchive: () => void;
  onMove: () => void;
  onDelete: () => void;
  onEnd: () => void;
}

export function SelectionBar(props: BarProps) {
  const { count, isArchive, undone, onAll, onArchive, onMove, onDelete, onEnd } = props;
  const isOff = count === 0;
  return (
    <div className="selection" role="group" aria-label={t('Selected chats')}>
      <p role="status">
        {isOff ? t('Select chats.') : t('{count, plural, one {# chat} other {# chats}} selected', { count })}
      </p>
      {undone.length > 0 ? (
        <div className="note bad" role="alert">
          {undone.map((words) => (
            <p key={words}>{words}</p>
          ))}
        </div>
      ) : null}
      <div className="controls">
        <button type="button" className="small" disabled={isOff} onClick={onArchive}>
          {isArchive ? <ArchiveRestore className="icon" /> : <Archive className="icon" />}
          {isArchive ? t('Unarchive') : t('Archive')}
        </button>
        <button type="button" className="small" disabled={isOff} onClick={onMove}>
          <FolderInput className="icon" /> {t('Move')}
        </button>
        <button type="button" className="small" disabled={isOff} onClick={onDelete}>
          <Trash2 className="icon" /> {t('Delete')}
        </button>
        <button type="button" className="plain small" onClick={onAll}>
          {t('Select all')}
        </button>
        <button type="button" className="plain small" onClick={onEnd}>
          {t('Cancel')}
        </button>
      </div>
    </div>
  );
}
