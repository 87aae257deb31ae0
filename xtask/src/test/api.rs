//! The live HTTP API tried by schemathesis against its own description.

use crate::failure::Failure;
use crate::test::instance::Instance;
use crate::test::{Figures, Ground};
use crate::{prepare, process};

/// Serves a demo instance and sends it generated requests.
pub fn test(ground: &Ground<'_>) -> Result<(), Failure> {
    let programs = prepare::python_environment(ground.workspace)?;
    let instance = Instance::start(ground, "daybook_api")?;
    let key = instance.api_key(ground)?;
    let examples = if ground.figures == Figures::Full { "200" } else { "20" };
    let mut test = process::command(programs.join("schemathesis"));
    test.current_dir(ground.workspace.target("instance"));
    test.arg("run").arg(format!("{}/v1/openapi.json", instance.url));
    test.arg("--header").arg(format!("Authorization: Bearer {key}"));
    test.args(["--max-examples", examples, "--seed", "1", "--workers", "2"]);
    process::run(&mut test)
}
