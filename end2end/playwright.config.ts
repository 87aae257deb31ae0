// Each spec runs twice: with script and without. Specs that need the islands are named `*.hydrate.spec.ts` and run
// only with script. The browser is the system's Chromium; nothing is downloaded.
import { defineConfig } from '@playwright/test';

const HYDRATE = /\.hydrate\.spec\.ts$/;

export default defineConfig({
  testDir: 'specs',
  outputDir: 'test-results',
  fullyParallel: true,
  forbidOnly: true,
  retries: 0,
  workers: 2,
  timeout: 30_000,
  expect: { timeout: 5_000 },
  reporter: [['list']],
  use: {
    baseURL: process.env.DAYBOOK_URL ?? 'http://127.0.0.1:3000',
    browserName: 'chromium',
    locale: 'en-GB',
    timezoneId: 'UTC',
    viewport: { width: 1280, height: 800 },
    screenshot: 'only-on-failure',
    launchOptions: {
      executablePath: process.env.DAYBOOK_CHROMIUM ?? '/usr/bin/chromium',
      args: [
        // Containers seldom allow the sandbox, and the only site visited is our own.
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    },
  },
  projects: [
    { name: 'script', use: { javaScriptEnabled: true } },
    { name: 'noscript', testIgnore: HYDRATE, use: { javaScriptEnabled: false } },
  ],
});
