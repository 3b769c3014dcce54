// Draws the diagram of a block of code as a picture. Loaded with the first one.
import { useEffect, useRef, useState } from 'react';
import { t } from '../ui/language';
import { ErrorNote } from '../ui/parts';
import { useLook } from '../ui/theme';
import { drawDiagram } from './drawDiagram';

interface Props {
  source: string;
  /** It can be seen. */
  onDrawn: () => void;
}

/** Colours are part of the picture: with other ones it is another picture. */
export function Diagram(props: Props) {
  const { theme, contrast } = useLook();
  return <Picture key={`${theme} ${contrast}`} {...props} />;
}

function Picture({ source, onDrawn }: Props) {
  const place = useRef<HTMLElement>(null);
  const [address, setAddress] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    if (!place.current) return;
    const { color, backgroundColor } = getComputedStyle(place.current);
    try {
      const picture = new Blob([drawDiagram(source, color, backgroundColor)], { type: 'image/svg+xml' });
      const drawn = URL.createObjectURL(picture);
      setAddress(drawn);
      return () => URL.revokeObjectURL(drawn);
    } catch (fault) {
      setError(fault);
    }
  }, [source]);
  return (
    // What scrolls can be scrolled by keys.
    <section ref={place} className="diagram scroller" aria-label={t('Diagram')} tabIndex={0}>
      {error ? <ErrorNote error={error} /> : null}
      {address !== null && !error ? (
        <img
          src={address}
          alt={t('Drawn from the source of this block')}
          onLoad={onDrawn}
          onError={() => setError(new Error(t("The browser can't show this diagram.")))}
        />
      ) : null}
    </section>
  );
}
