// Uploads files before their message is sent: images, PDFs, audio, and text that is too long to embed.
import type { WireFile } from '@rejoin/client';
import { Problem } from '../api/http';
import { message, number, t } from '../ui/language';

/** A file that the server has. */
export type StoredFile = Pick<WireFile, 'fileId' | 'name' | 'mediaType' | 'sizeBytes'>;

/** A file on its way. */
export interface Upload {
  key: number;
  file: File;
  /** From 0 to 1. */
  progress: number;
  /** Why it did not get there. */
  error?: string;
}

/** What a file may have, unless the deployment says otherwise [bytes]. */
const FILE_MAX_BYTES = 25 * 1024 * 1024;
const SIZES = [message('{size} bytes'), message('{size} KB'), message('{size} MB'), message('{size} GB')];

/** Whether it goes up by itself, and not as text within the message. */
export function isUploaded(file: File): boolean {
  return /^(image|audio)\/(?!svg)/.test(file.type) || file.type === 'application/pdf';
}

/** Where a file's content is. */
export function contentOf(fileId: string): string {
  return `/api/files/${encodeURIComponent(fileId)}/content`;
}

export function isShownImage(mediaType: string): boolean {
  return ['image/png', 'image/jpeg', 'image/gif', 'image/webp'].includes(mediaType);
}

/** A size in words. */
export function sizeOf(bytes: number): string {
  const unit = Math.min(SIZES.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  const size = number(bytes / 1000 ** unit, { maximumFractionDigits: unit === 0 ? 0 : 1 });
  return t(SIZES[unit] ?? '{size} bytes', { size });
}

/** Uploads a file with an XMLHttpRequest, because `fetch` reports no upload progress. */
export function upload(file: File, onProgress: (progress: number) => void, signal: AbortSignal): Promise<StoredFile> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', `/api/files?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader('content-type', file.type || 'application/octet-stream');
    request.setRequestHeader('accept', 'application/json');
    request.responseType = 'text';
    request.upload.onprogress = ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 0);
    request.onload = () => {
      const body = parsed(request.responseText);
      if (request.status === 201) {
        const { id, name, mediaType, sizeBytes } = body as {
          id: string;
          name: string;
          mediaType: string;
          sizeBytes: number;
        };
        resolve({ fileId: id, name, mediaType, sizeBytes });
      } else {
        const { code, detail } = body as { code?: string; detail?: string };
        const { status } = request;
        const words = detail ?? t('the server returned HTTP {status}', { status: String(status) });
        reject(new Problem(status, code ?? 'unknown', words));
      }
    };
    // A server that refuses a file for its size need not wait for all of it.
    request.onerror = () =>
      reject(
        new Error(
          file.size > FILE_MAX_BYTES
            ? t('the file is larger than {size}', { size: sizeOf(FILE_MAX_BYTES) })
            : t("can't reach the server"),
        ),
      );
    request.onabort = () => reject(new DOMException('removed', 'AbortError'));
    signal.addEventListener('abort', () => request.abort(), { once: true });
    request.send(file);
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

/** The files that a tool's result names. */
export function filesIn(output: unknown): StoredFile[] {
  const found = new Map<string, StoredFile>();
  const look = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    const { fileId, url, name, mimeType, bytes } = value as Record<string, unknown>;
    if (typeof fileId === 'string' && url === contentOf(fileId)) {
      found.set(fileId, {
        fileId,
        name: typeof name === 'string' ? name : t('file'),
        mediaType: typeof mimeType === 'string' ? mimeType : '',
        sizeBytes: typeof bytes === 'number' ? bytes : 0,
      });
    }
    for (const within of Object.values(value)) look(within);
  };
  look(output);
  return [...found.values()];
}
