// Exports a chat as a file, as the server writes it: with all of its messages, also those that are not shown.
import { apiText } from '../api/http';
import { download } from '../ui/download';
import { t } from '../ui/language';

const TYPES = {
  markdown: { ending: 'md', media: 'text/markdown' },
  json: { ending: 'json', media: 'application/json' },
};
/** Length of a file's name without its ending, in characters. */
const NAME_MAX = 60;

/** Downloads a chat under a name that its title gives. */
export async function exportChat(id: string, title: string, format: keyof typeof TYPES): Promise<void> {
  const text = await apiText(`/api/conversations/${id}/export?format=${format}`);
  const { ending, media } = TYPES[format];
  download(`${fileName(title)}.${ending}`, media, text);
}

function fileName(title: string): string {
  const words = title.match(/[\p{L}\p{N}]+/gu) ?? [t('chat')];
  return words.join('-').slice(0, NAME_MAX);
}
