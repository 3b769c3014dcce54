/**
 * A value that is made when it is first asked for. Making a format of `Intl` takes a slow device a millisecond or more, and few pages
 * need all of them.
 */
export function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
