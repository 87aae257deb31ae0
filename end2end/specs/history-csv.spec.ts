// The history as CSV: the screen's filter, complete, with a foot that proves it.
import { expect, test } from '../fixtures/test';

/** Strict RFC 4180: CRLF between records, quotes doubled inside quotes. */
function parse(text: string): string[][] {
  const records: string[][] = [];
  let cells: string[] = [];
  let at = 0;
  while (at < text.length) {
    const cell = /^(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/.exec(text.slice(at, at + 20_000));
    if (!cell) throw new Error(`not RFC 4180 at ${at}: ${JSON.stringify(text.slice(at, at + 40))}`);
    cells.push(cell[1]?.replaceAll('""', '"') ?? cell[2]);
    at += cell[0].length;
    if (cell[3] === '\r\n') {
      records.push(cells);
      cells = [];
    }
  }
  return records;
}

const micros = (text: string) => {
  expect(text).toMatch(/^-?\d+(\.\d{1,6})?$/);
  const [whole, fraction = ''] = text.split('.');
  const size = BigInt(whole.replace('-', '') + fraction.padEnd(6, '0'));
  return whole.startsWith('-') ? -size : size;
};

test.beforeEach(async ({ signIn }) => {
  await signIn('customer');
});

test('the file has every row of the filter and sums that agree', async ({ page }) => {
  await page.goto('/history?kind=CONSUME&kind=SETTLE');
  const onScreen = await page.getByTestId('totals').locator('th').innerText();
  const href = await page.getByRole('link', { name: 'Download all as CSV' }).getAttribute('href');
  const response = await page.request.get(href ?? '');
  expect(response.headers()['content-type']).toContain('text/csv');
  expect(response.headers()['content-disposition']).toContain('attachment');
  const [head, ...records] = parse(await response.text());
  const foot = records.pop() ?? [];
  expect(new Set([head, ...records, foot].map((record) => record.length))).toEqual(new Set([head.length]));
  const amount = head.indexOf('amount');
  expect(foot[1]).toBe(`${records.length} rows`);
  expect(onScreen.replaceAll(',', '')).toContain(`Total of ${records.length} entries`);
  expect(records.reduce((sum, record) => sum + micros(record[amount]), 0n)).toBe(micros(foot[amount]));
  expect(records.every((record) => ['CONSUME', 'SETTLE'].includes(record[head.indexOf('kind')]))).toBe(true);
});

test('a byte-order mark comes only when asked for', async ({ page }) => {
  const plain = await (await page.request.get('/history.csv?kind=TOPUP')).body();
  const marked = await (await page.request.get('/history.csv?kind=TOPUP&bom=1')).body();
  expect(plain.subarray(0, 3).toString()).toBe('seq');
  expect(marked.subarray(0, 3)).toEqual(Buffer.from([0xef, 0xbb, 0xbf]));
  expect(marked.subarray(3).equals(plain)).toBe(true);
});

test('a filter that cannot be read gives no file', async ({ page }) => {
  expect((await page.request.get('/history.csv?min=x')).status()).toBe(400);
});
