/** What the OpenAPI document of a running api says that there is. */
export interface Operation {
  readonly id: string;
  /** In capitals. */
  readonly method: string;
  /** With `/api/v1`, and `{id}` for an identifier. */
  readonly path: string;
  readonly tag: string;
}

/** Every operation of a running api, in the document's order. */
export async function operationsOf({ url }: { url: string }): Promise<Operation[]> {
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, { operationId: string; tags: string[] }>>;
  };
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId, tags }]) => ({
      id: operationId,
      method: method.toUpperCase(),
      path,
      tag: tags[0]!,
    })),
  );
}

/**
 * The path of an operation with identifiers in it.
 * @param things by the part of the path before the identifier: `agents`, `sessions`, …
 */
export function pathWith({ path }: Pick<Operation, 'path'>, things: Readonly<Record<string, string>>): string {
  return path.replaceAll(/([\w-]+)\/\{\w+\}/g, (_all, kind: string) => {
    const id = things[kind];
    if (id === undefined) throw new Error(`${path} names one of ${kind}, and none is known.`);
    return `${kind}/${id}`;
  });
}
