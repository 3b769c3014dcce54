// Lists the files of a message or a tool result. Images are shown; all files can be downloaded.
import { contentOf, isShownImage, type StoredFile, sizeOf } from './uploads';

export function Attachments({ files }: { files: readonly StoredFile[] }) {
  if (files.length === 0) return null;
  return (
    <ul className="attachments" aria-label="Files">
      {files.map((file) => (
        <li key={file.fileId}>
          <a href={contentOf(file.fileId)} download={file.name}>
            {isShownImage(file.mediaType) ? (
              <img src={contentOf(file.fileId)} alt={file.name} loading="lazy" />
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
