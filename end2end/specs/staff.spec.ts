// Staff find any account and see it as its owner does.
import { expect, test } from '../fixtures/test';
import { expectAccessible } from '../fixtures/axe';

test('support finds an account and opens its history', async ({ page, signIn }) => {
  await signIn('support');
  await page.goto('/');
  await expectAccessible(page);
  await page.getByLabel('Name, e-mail, reference or id').fill('demo-');
  await page.getByRole('button', { name: 'Find' }).click();
  await expect(page).toHaveURL('/accounts?q=demo-');
  await expectAccessible(page);
  await page.getByRole('table').getByRole('link').first().click();
  await expect(page.getByRole('heading', { level: 1, name: 'Overview' })).toBeVisible();
  await page.getByRole('navigation', { name: 'Account' }).getByRole('link', { name: 'History' }).click();
  await expect(page).toHaveURL(/\/accounts\/[0-9a-f-]{36}\/history$/);
  await expect(page.locator('table.entries tbody tr').first()).toBeVisible();
  await expectAccessible(page);
});

test('a search that finds nothing says how to search', async ({ page, signIn }) => {
  await signIn('support');
  await page.goto('/accounts?q=no-such-account');
  await expect(page.getByTestId('nothing-matches')).toBeVisible();
});

test('customers have no business in the list of accounts', async ({ page, signIn }) => {
  await signIn('customer');
  const response = await page.goto('/accounts');
  expect(response?.status()).toBe(403);
  await expect(page.getByRole('heading', { level: 1, name: 'Not allowed' })).toBeVisible();
  await expectAccessible(page);
});
