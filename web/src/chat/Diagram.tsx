// Draws the diagram of a block of code as a picture. What draws it is loaded then.
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { ErrorNote } from '../ui/parts';
import { useLook } from '../ui/theme';

interface Props {
  source: string;
  /** The source as it is shown until the picture is there, and where there can't be one. */
  children: ReactNode;
}

/** Colours are part of the picture: with other ones it is another picture. */
export function Diagram(props: Props) {
  const { theme, contrast } = useLook();
  return <Picture key={`${theme} ${contrast}`} {...props} />;
}

function Picture({ source, children }: Props) {
  const place = useRef<HTMLElement>(null);
  const [address, setAddress] = useState<string | null>(null);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    let drawn: string | undefined;
    let isShown = true;
    const draw = async () => {
      const { drawDiagram } = await load();
      if (!isShown || !place.current) return;
      const { color, backgroundColor } = getComputedStyle(place.current);
      const picture = new Blob([drawDiagram(source, color, backgroundColor)], { type: 'image/svg+xml' });
      drawn = URL.createObjectURL(picture);
      setAddress(drawn);
    };
    draw().catch((fault: Error) => isShown && setError(fault));
    return () => {
      isShown = false;
      if (drawn !== undefined) URL.revokeObjectURL(drawn);
    };
  }, [source]);
  const isDrawn = address !== null && error === null;
  return (
    <>
      <section ref={place} className="diagram scroller" aria-label="Diagram" tabIndex={isDrawn ? 0 : undefined}>
        {error ? <ErrorNote error={error} /> : null}
        {isDrawn ? (
          <img
            src={address}
            alt="Drawn from the source of this block"
            onError={() => setError(new Error("The browser can't show this diagram."))}
          />
        ) : null}
      </section>
      {isDrawn ? null : children}
    </>
  );
}

async function load() {
  try {
    return await import('./drawDiagram');
  } catch (cause) {
    throw new Error("Can't reach the server. Select “Show source”, and draw the diagram again later.", { cause });
  }
}
