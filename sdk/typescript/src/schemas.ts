/** Schemas of zod, or plain JSON Schemas, as what a tool announces and how it reads values. Pure. */
import { safeParseAsync, toJSONSchema, type z } from 'zod';

/** A JSON Schema. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/** A schema of zod (4 or newer), also of `zod/mini`; or a JSON Schema. */
export type Schema = z.core.$ZodType | JsonSchema;

/** A value does not match its schema. The text names the places. */
export class MismatchError extends Error {
  override readonly name = 'MismatchError';
}

/** A schema in both forms. */
export interface Shape {
  readonly jsonSchema: JsonSchema;
  /** Returns the value as zod has parsed it; with a plain JSON Schema, the value itself. Rejects with a `MismatchError`. */
  read(value: unknown): Promise<unknown>;
}

/** Returns the shape of a schema. Throws a `TypeError`, with what to change, if it has no JSON Schema. `io`: which side of it is announced. */
export function shapeOf(schema: Schema, io: 'input' | 'output', what: string): Shape {
  if (!isZod(schema)) {
    if (typeof schema !== 'object' || schema === null || Array.isArray(schema))
      throw new TypeError(`${what} is neither a schema of zod nor a JSON Schema`);
    return { jsonSchema: schema, read: async (value) => value };
  }
  let jsonSchema: JsonSchema;
  try {
    const { $schema: _, '~standard': __, ...found } = toJSONSchema(schema, { io });
    jsonSchema = found;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new TypeError(
      `${what} has no JSON Schema: ${why}. Use types that JSON has, such as z.iso.date() for z.date(), or pass a JSON Schema.`,
      { cause },
    );
  }
  return {
    jsonSchema,
    read: async (value) => {
      const read = await safeParseAsync(schema, value);
      if (read.success) return read.data;
      throw new MismatchError(read.error.issues.map((issue) => `${placeOf(issue.path)}${issue.message}`).join('; '));
    },
  };
}

function isZod(schema: Schema): schema is z.core.$ZodType {
  return typeof schema === 'object' && schema !== null && '_zod' in schema;
}

function placeOf(path: readonly PropertyKey[]): string {
  return path.length === 0 ? '' : `${path.map(String).join('.')}: `;
}
