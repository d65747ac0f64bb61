/** Page parameters, validated. */
interface Page {
  readonly page_num: number;
  readonly page_size: number;
}

/**
 * One page of a list as on the wire.
 * @param count entries in all; asked first, so that a page past the end costs nothing more
 */
export async function readPage<Row, Entry>({
  page: { page_num, page_size },
  count,
  list,
  render,
}: {
  page: Page;
  count: () => Promise<number>;
  list: (window: { limit: number; offset: number }) => Promise<Row[]>;
  render: (row: Row) => Entry;
}): Promise<{ data: Entry[]; total: number; has_more: boolean }> {
  const offset = (page_num - 1) * page_size;
  const total = await count();
  const rows = offset < total ? await list({ limit: page_size, offset }) : [];
  return { data: rows.map(render), total, has_more: offset + rows.length < total && rows.length > 0 };
}
