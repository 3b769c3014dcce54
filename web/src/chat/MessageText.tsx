// The text of a user's message, with the text files in it folded.
import { Folded, Payload } from '../ui/parts';
import { splitFiles } from './files';

export function MessageText({ content }: { content: string }) {
  const { words, files } = splitFiles(content);
  return (
    <>
      {words === '' ? null : <p dir="auto">{words}</p>}
      {files.map((file, nth) => (
        <Folded key={nth} label={<code>{file.name}</code>}>
          {() => <Payload value={file.content} />}
        </Folded>
      ))}
    </>
  );
}
