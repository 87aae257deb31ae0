//! The live HTTP API tried by schemathesis against its own description.

use crate::failure::Failure;
use crate::test::instance::Instance;
use crate::test::{Figures, Ground};
use crate::{prepare, process};

/// Serves a demo instance and sends it generated requests.
pub fn test(ground: &Ground<'_>) -> Result<(), Failure> {
    let programs = prepare::python_environment(ground.workspace)?;
    let instance = Instance::start(ground, "daybook_api")?;
    let (key, account) = (instance.api_key(ground)?, instance.account()?);
    let examples = if ground.figures == Figures::Full { "200" } else { "20" };
    let mut test = process::command(programs.join("schemathesis"));
    test.current_dir(ground.workspace.target("instance"));
    test.arg("--config-file").arg(ground.workspace.path("xtask/schemathesis.toml"));
    test.arg("run").arg(format!("{}/v1/openapi.json", instance.url));
    // One worker: the same seed then gives the same requests.
    test.args(["--max-examples", examples, "--seed", "1", "--workers", "1"]);
    test.env("DAYBOOK_API_KEY", key).env("DAYBOOK_API_ACCOUNT", account);
    process::run(&mut test)
}
