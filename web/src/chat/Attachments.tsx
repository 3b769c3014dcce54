// Lists the files of a message or a tool result. Images are shown; all files can be downloaded.
import { t } from '../ui/language';
import { contentOf, isShownImage, type StoredFile, sizeOf } from './uploads';

interface Props {
  files: readonly StoredFile[];
  /** The address of a file's content. */
  addressOf?: (fileId: string) => string;
}

export function Attachments({ files, addressOf = contentOf }: Props) {
  if (files.length === 0) return null;
  return (
    <ul className="attachments" aria-label={t('Files')}>
      {files.map((file) => (
        <li key={file.fileId}>
          <a href={addressOf(file.fileId)} download={file.name}>
            {isShownImage(file.mediaType) ? (
              <img src={addressOf(file.fileId)} alt={file.name} loading="lazy" />
            ) : (
              <code>{file.name}</code>
            )}
          </a>{' '}
          <span className="quiet">{sizeOf(file.sizeBytes)}</span>
        </li>
      ))}
    </ul>
  );
}
