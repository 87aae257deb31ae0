//! How the server is started: every setting on the command line, so that none hides in a file.

use std::path::Path;

use crate::layout::{Durability, Options};

/// The arguments after the program's name.
pub(crate) fn arguments(options: &Options, socket_dir: &Path) -> Vec<String> {
    let mut settings: Vec<(String, String)> = [
        ("listen_addresses", ""),
        ("unix_socket_permissions", "0700"),
        ("port", "5432"),
        ("max_connections", "200"),
        ("timezone", "UTC"),
        ("log_timezone", "UTC"),
        ("log_line_prefix", "%m [%p] "),
        // Details of a failed statement carry values, which may be personal; the log shall not.
        ("log_error_verbosity", "terse"),
        ("log_parameter_max_length_on_error", "0"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    settings.push(("unix_socket_directories".to_owned(), quoted(socket_dir)));
    if options.durability == Durability::NoFsync {
        settings.extend([
            ("fsync".to_owned(), "off".to_owned()),
            ("full_page_writes".to_owned(), "off".to_owned()),
        ]);
    }
    settings.extend(options.settings.iter().cloned());
    let mut arguments = vec!["-D".to_owned(), options.data().display().to_string()];
    for (name, value) in settings {
        arguments.push("-c".to_owned());
        arguments.push(format!("{name}={value}"));
    }
    arguments
}

/// The setting is a list, so a folder with a comma or a blank in its name is put in quotes.
fn quoted(folder: &Path) -> String {
    format!("\"{}\"", folder.display().to_string().replace('"', "\"\""))
}
