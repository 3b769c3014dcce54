// What a page shows is measured: what is cut off, what is too small to be touched, and what lies under something else.

/** Smallest size of what is clicked or touched, in CSS pixels (WCAG 2.5.8). */
const TARGET_PX = 24;

/** What the functions below share. It runs in the page. */
const MEASURES = `
  const TARGET_PX = ${TARGET_PX};
  const CONTROLS =
    'a[href], button, input:not([type="hidden"]), select, textarea, summary, [role="button"], [role="menuitem"], [role="option"], [role="tab"]';
  const named = (element) =>
    element.tagName.toLowerCase() + (element.className && '.' + String(element.className).replace(/ +/g, '.')) +
    ' “' + (element.getAttribute('aria-label') ?? element.textContent ?? '').trim().replace(/\\s+/g, ' ').slice(0, 40) + '”';
  const styleOf = (element) => getComputedStyle(element);
  const above = (element) => {
    const { position } = styleOf(element);
    if (position === 'fixed' || element.matches('dialog, [popover]')) return null;
    return position === 'absolute' ? element.offsetParent : element.parentElement;
  };
  const isForEars = (element) => {
    for (let at = element; at; at = at.parentElement) if (styleOf(at).clipPath !== 'none') return true;
    return false;
  };
  const isShown = (element) =>
    element.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }) && !isForEars(element);
`;

/** Asks until nothing is found; what was found last. */
export async function settled(look, limitMs = 3_000) {
  const end = Date.now() + limitMs;
  for (;;) {
    const found = await look();
    if (found.length === 0 || Date.now() > end) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const evaluate = (page, body) => page.evaluate(`(() => { ${MEASURES} ${body} })()`);

/**
 * Texts and controls that can't be seen whole: they stick out of the page, or are cut off. What scrolls, and lines that end with an ellipsis, count
 * as seen. Pictures are not looked into.
 */
export function cutOff(page) {
  return evaluate(
    page,
    `
    const { clientWidth, clientHeight } = document.documentElement;
    const found = new Set();
    // Pages without the frame scroll as a whole.
    const isFramed = document.querySelector('.shell') !== null;
    /** Why a box that belongs to an element can't be seen whole. */
    const missing = (box, element) => {
      let { left, right, top, bottom } = box;
      for (let at = element; at; at = above(at)) {
        const style = styleOf(at);
        const own = at.getBoundingClientRect();
        const isShortened = style.textOverflow === 'ellipsis' || style.webkitLineClamp !== 'none';
        if (style.overflowX !== 'visible') {
          const isCut = style.overflowX !== 'auto' && style.overflowX !== 'scroll';
          if (isCut && !isShortened && (left < own.left - 1 || right > own.right + 1)) return 'is cut off by ' + named(at);
          [left, right] = [Math.max(left, own.left), Math.min(right, own.right)];
        }
        if (style.overflowY !== 'visible') {
          const isCut = style.overflowY !== 'auto' && style.overflowY !== 'scroll';
          if (isCut && !isShortened && (top < own.top - 1 || bottom > own.bottom + 1)) return 'is cut off below by ' + named(at);
          [top, bottom] = [Math.max(top, own.top), Math.min(bottom, own.bottom)];
        }
        // It is scrolled out of sight, and can be scrolled into it.
        if (left >= right || top >= bottom) [left, right, top, bottom] = [own.left, own.right, own.top, own.bottom];
      }
      if (left < -1 || right > clientWidth + 1) return 'sticks out at the side: ' + Math.round(left) + ' to ' + Math.round(right);
      if (isFramed && (top < -1 || bottom > clientHeight + 1)) return 'sticks out below: ' + Math.round(top) + ' to ' + Math.round(bottom);
      return null;
    };
    const look = (box, element, what) => {
      const why = box.width > 0 && box.height > 0 ? missing(box, element) : null;
      if (why) found.add(what + ' ' + why);
    };
    const { scrollWidth } = document.documentElement;
    if (scrollWidth > clientWidth) found.add('the page is ' + scrollWidth + ' wide');
    const main = document.querySelector('#main');
    if (main && main.scrollWidth > main.clientWidth) {
      const scrolls = (element) => element.closest('#main *') && /auto|scroll|hidden/.test(styleOf(element).overflowX);
      const isWide = (element) => element.getBoundingClientRect().right > main.getBoundingClientRect().right + 1;
      const wide = [...main.querySelectorAll('*')].filter((element) => {
        for (let at = element.parentElement; at !== main; at = at.parentElement) if (scrolls(at)) return false;
        return isWide(element);
      });
      found.add('the main part is ' + main.scrollWidth + ' wide, by ' + wide.slice(-3).map(named).join(', '));
    }
    for (const element of document.body.querySelectorAll('*')) {
      // An event of a calendar is as long as its time.
      if (element.closest('svg, .slot, .katex') || !isShown(element)) continue;
      if (element.matches(CONTROLS)) look(element.getBoundingClientRect(), above(element), named(element));
      for (const node of element.childNodes) {
        if (node.nodeType !== Node.TEXT_NODE || node.data.trim() === '') continue;
        const range = document.createRange();
        range.selectNodeContents(node);
        for (const box of range.getClientRects()) look(box, element, 'the text of ' + named(element));
      }
    }
    return [...found];
  `,
  );
}

/**
 * Controls that are smaller than 24 by 24 pixels. A label counts with its box, a row with its link. Links in sentences may be smaller, and so may
 * links that have that much room for themselves. Nodes of a diagram are as large as its zoom.
 */
export function smallTargets(page) {
  return evaluate(
    page,
    `
    const targets = [...document.body.querySelectorAll(CONTROLS)].filter((element) => isShown(element) && !element.closest('.picture'));
    const boxOf = (element) => {
      const box = element.getBoundingClientRect();
      const around = element.matches('.row-link') ? element.closest('tr') : element.matches('input') ? element.closest('label') : null;
      const outer = around?.getBoundingClientRect() ?? box;
      const [left, top] = [Math.min(box.left, outer.left), Math.min(box.top, outer.top)];
      return { left, top, width: Math.max(box.right, outer.right) - left, height: Math.max(box.bottom, outer.bottom) - top };
    };
    // Rounded: layouts have fractions of pixels.
    const isSmall = ({ width, height }) => Math.round(width) < TARGET_PX || Math.round(height) < TARGET_PX;
    const isInSentence = (element) =>
      element.matches('a') && styleOf(element).display === 'inline' &&
      element.parentElement.textContent.trim() !== element.textContent.trim();
    const middleOf = ({ left, top, width, height }) => [left + width / 2, top + height / 2];
    /** It is scrolled out of sight, or under something else. */
    const isCovered = (element) => {
      const there = document.elementFromPoint(...middleOf(element.getBoundingClientRect()));
      return there !== null && !there.contains(element) && !element.contains(there);
    };
    const hasRoom = (element, box) => {
      const [x, y] = middleOf(box);
      return targets.every((other) => {
        if (other === element || other.contains(element) || element.contains(other) || isCovered(other)) return true;
        const there = boxOf(other);
        if (isSmall(there)) {
          const [otherX, otherY] = middleOf(there);
          return Math.hypot(x - otherX, y - otherY) >= TARGET_PX;
        }
        const away = (at, from, length) => Math.max(from - at, at - from - length, 0);
        return Math.hypot(away(x, there.left, there.width), away(y, there.top, there.height)) >= TARGET_PX / 2;
      });
    };
    return targets.flatMap((element) => {
      const box = boxOf(element);
      if (!isSmall(box) || isInSentence(element) || (element.matches('a') && hasRoom(element, box))) return [];
      return [named(element) + ' is ' + box.width.toFixed(1) + ' by ' + box.height.toFixed(1)];
    });
  `,
  );
}

/** Enabled controls that match a selector, but can't be reached: scrolled into sight, they are outside of the page or under something else. */
export function unreachable(page, selector) {
  return evaluate(
    page,
    `
    const { clientWidth, clientHeight } = document.documentElement;
    const controls = [...document.querySelectorAll(${JSON.stringify(selector)})].filter((element) => isShown(element) && !element.disabled);
    return controls.flatMap((element) => {
      element.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
      const { left, right, top, bottom } = element.getBoundingClientRect();
      if (left < -1 || top < -1 || right > clientWidth + 1 || bottom > clientHeight + 1) return [named(element) + ' is outside of the page'];
      const there = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
      return there && element.contains(there) ? [] : [named(element) + ' is under ' + (there ? named(there) : 'nothing')];
    });
  `,
  );
}
