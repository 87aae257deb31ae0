//! The browser tests: Playwright with the system's Chromium, each spec with script and without.

use crate::failure::Failure;
use crate::test::instance::Instance;
use crate::test::{Figures, Ground};
use crate::{assets, prepare, process};

/// Installs what is missing, serves a demo instance, runs the specs.
pub fn test(ground: &Ground<'_>) -> Result<(), Failure> {
    let chromium = prepare::chromium()?;
    prepare::node_packages(ground.workspace)?;
    assets::build(ground.workspace)?;
    let instance = Instance::start(ground, "daybook_browser")?;
    let folder = ground.workspace.path("end2end");
    let mut test = process::command("node");
    test.current_dir(&folder).arg("node_modules/@playwright/test/cli.js").arg("test");
    test.env("DAYBOOK_URL", &instance.url)
        .env("DAYBOOK_LOGINS", &instance.logins)
        .env("DAYBOOK_CHROMIUM", chromium);
    if ground.figures == Figures::Full {
        test.env("DAYBOOK_FULL", "1");
    }
    process::run(&mut test)
}
