// Lists the attachments of the message being written: text files, uploaded files, and uploads in progress.
import { X } from 'lucide-react';
import { IconButton } from '../ui/Button';
import { t } from '../ui/language';
import type { TextFile } from './files';
import { contentOf, isShownImage, type StoredFile, sizeOf, type Upload } from './uploads';

interface Props {
  files: readonly TextFile[];
  attachments: readonly StoredFile[];
  uploads: readonly Upload[];
  onLeaveOut: (what: TextFile | StoredFile | Upload) => void;
  onRetry: (upload: Upload) => void;
}

export function Chips({ files, attachments, uploads, onLeaveOut, onRetry }: Props) {
  if (files.length + attachments.length + uploads.length === 0) return null;
  const leaveOut = (name: string, what: TextFile | StoredFile | Upload) => (
    <IconButton
      icon={X}
      label={t('Remove')}
      name={t('Remove {name}', { name })}
      className="small"
      onClick={() => onLeaveOut(what)}
    />
  );
  return (
    <ul className="chips" aria-label={t('Attached files')}>
      {files.map((file, nth) => (
        <li key={nth}>
          <bdi>{file.name}</bdi>{' '}
          <span className="quiet">{t('{count, plural, other {# characters}}', { count: file.content.length })}</span>
          {leaveOut(file.name, file)}
        </li>
      ))}
      {attachments.map((file) => (
        <li key={file.fileId}>
          {isShownImage(file.mediaType) ? <img src={contentOf(file.fileId)} alt="" /> : null}
          <bdi>{file.name}</bdi> <span className="quiet">{sizeOf(file.sizeBytes)}</span>
          {leaveOut(file.name, file)}
        </li>
      ))}
      {uploads.map((one) => (
        <li key={one.key}>
          <bdi>{one.file.name}</bdi>{' '}
          {one.error === undefined ? (
            <progress aria-label={t('Uploading {name}', { name: one.file.name })} value={one.progress} max={1} />
          ) : (
            <>
              <span role="alert" className="bad">
                {t('was not attached: {reason}', { reason: one.error })}
              </span>{' '}
              <button type="button" className="small" onClick={() => onRetry(one)}>
                {t('Retry')}
              </button>
            </>
          )}
          {leaveOut(one.file.name, one)}
        </li>
      ))}
    </ul>
  );
}
