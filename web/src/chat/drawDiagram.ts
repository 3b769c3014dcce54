// Draws diagrams in Mermaid's language, without a document: Mermaid itself inserts <style> elements, which the content security policy refuses
// (docs/decisions/0081-rendering-under-the-policy.md).
import { renderMermaidSVG } from 'beautiful-mermaid';
import { t } from '../ui/language';

/** The layout of a longer text would block the page for too long, in characters. */
const MAX_CHARACTERS = 10_000;

/** Returns an SVG file. It is shown as an image: its styles apply in it alone, and nothing in it runs or is loaded. */
export function drawDiagram(source: string, ink: string, ground: string): string {
  if (source.length > MAX_CHARACTERS)
    throw new Error(t('This diagram is too long to be drawn: at most {limit} characters.', { limit: MAX_CHARACTERS }));
  try {
    const svg = renderMermaidSVG(source, { fg: ink, bg: ground, line: ink, muted: ink, font: 'system-ui' });
    // The address of a font of another host, which an image would not load anyway.
    return svg.replaceAll(/@import url\('[^']*'\);/g, '');
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(
      t(
        "This diagram can't be drawn: {reason} Flowcharts, state, sequence, class and entity-relationship diagrams and XY charts can be drawn.",
        { reason },
      ),
      { cause },
    );
  }
}
