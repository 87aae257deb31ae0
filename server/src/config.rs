//! One typed configuration from file, environment and flags, in that order; the later wins.
//!
//! The file is `Leptos.toml`: the framework's section first, then a table for each of the structs below.
//! Every setting has a default. A key that is not known is refused with its name, because a setting that is
//! silently ignored is worse than none. To add a setting: a field with its default, and a line in
//! `Leptos.toml`; the environment variable `DAYBOOK_<TABLE>_<KEY>` comes by itself.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use backoffice::access::session::Ends;
use ledger::poster::Options;
use leptos_config::{LeptosOptions, get_config_from_str};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// The file that is read when none is named, if it exists.
pub const FILE: &str = "Leptos.toml";
const LEPTOS_HEADER: &str = "[package.metadata.leptos]";
/// Keys of the framework's section that make sense here.
const LEPTOS_KEYS: [&str; 8] = [
    "output-name",
    "site-root",
    "site-pkg-dir",
    "site-addr",
    "env",
    "reload-port",
    "hash-file",
    "hash-files",
];
const TABLES: [&str; 5] = ["http", "database", "sessions", "limits", "poster"];

#[derive(Clone, Debug)]
pub struct Config {
    pub leptos: LeptosOptions,
    pub http: HttpSettings,
    pub database: DatabaseSettings,
    pub sessions: SessionSettings,
    pub limits: LimitSettings,
    pub poster: PosterSettings,
    /// A rehearsal instance, whose time is set by hand. Only a flag turns it on.
    pub test_clock: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSettings {
    /// The address people use, without a slash at the end. With `https://` cookies are Secure.
    pub base_url: Option<String>,
    /// Where `/metrics` is served; nowhere if absent.
    pub metrics_address: Option<SocketAddr>,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpAddr>,
    /// How long the head of a request may take from its first byte on, and its body from there.
    pub head_wait_s: u32,
    pub body_wait_s: u32,
}

impl Default for HttpSettings {
    fn default() -> HttpSettings {
        HttpSettings {
            base_url: None,
            metrics_address: None,
            trusted_proxies: Vec::new(),
            head_wait_s: 30,
            body_wait_s: 60,
        }
    }
}

impl HttpSettings {
    pub fn head_wait(&self) -> Duration {
        Duration::from_secs(u64::from(self.head_wait_s))
    }

    pub fn body_wait(&self) -> Duration {
        Duration::from_secs(u64::from(self.body_wait_s))
    }

    pub fn is_https(&self) -> bool {
        self.base_url.as_deref().is_some_and(|url| url.starts_with("https://"))
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseSettings {
    /// Without it a private Postgres is started under `data_dir`.
    pub url: Option<String>,
    /// The role that owns the schema, for migrations; `url` if absent.
    pub owner_url: Option<String>,
    /// A replica for reads; `url` if absent.
    pub read_url: Option<String>,
    /// What every connection but migration's becomes.
    pub role: String,
    pub connections_max: u32,
    pub data_dir: PathBuf,
}

impl Default for DatabaseSettings {
    fn default() -> DatabaseSettings {
        DatabaseSettings {
            url: None,
            owner_url: None,
            read_url: None,
            role: "daybook_app".to_owned(),
            connections_max: 16,
            data_dir: PathBuf::from(".daybook"),
        }
    }
}

impl std::fmt::Debug for DatabaseSettings {
    /// Without the addresses, which may hold passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseSettings")
            .field("role", &self.role)
            .field("connections_max", &self.connections_max)
            .field("data_dir", &self.data_dir)
            .finish_non_exhaustive()
    }
}

/// When browser sessions end.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionSettings {
    pub idle_customer_s: u32,
    pub idle_staff_s: u32,
    /// After sign-in, however busy.
    pub absolute_s: u32,
}

impl Default for SessionSettings {
    fn default() -> SessionSettings {
        let Ends { idle_customer_s, idle_staff_s, absolute_s } = Ends::default();
        SessionSettings { idle_customer_s, idle_staff_s, absolute_s }
    }
}

impl From<SessionSettings> for Ends {
    fn from(settings: SessionSettings) -> Ends {
        let SessionSettings { idle_customer_s, idle_staff_s, absolute_s } = settings;
        Ends { idle_customer_s, idle_staff_s, absolute_s }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitSettings {
    pub body_bytes_max: usize,
    pub batch_bytes_max: usize,
    pub password_hashes_at_once: usize,
}

impl Default for LimitSettings {
    fn default() -> LimitSettings {
        LimitSettings {
            body_bytes_max: 64 * 1024,
            batch_bytes_max: 8 * 1024 * 1024,
            password_hashes_at_once: 2,
        }
    }
}

/// How the poster of the ledger is sized; see [`ledger::poster::Options`]. Each lane keeps a connection, in addition to
/// `aside_connections` and to the pool of `database.connections_max`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PosterSettings {
    pub lanes: usize,
    pub round_max: usize,
    pub queue_max: usize,
    pub aside_connections: usize,
}

impl Default for PosterSettings {
    fn default() -> PosterSettings {
        let Options { lanes, round_max, queue_max, aside_connections } = Options::default();
        PosterSettings { lanes, round_max, queue_max, aside_connections }
    }
}

impl From<PosterSettings> for Options {
    fn from(settings: PosterSettings) -> Options {
        let PosterSettings { lanes, round_max, queue_max, aside_connections } = settings;
        Options { lanes, round_max, queue_max, aside_connections }
    }
}

/// What the command line says. Absent means: as configured.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub site_addr: Option<SocketAddr>,
    pub database_url: Option<String>,
    pub metrics_address: Option<SocketAddr>,
    pub test_clock: bool,
}

/// Where settings come from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// A named file must exist; without a name [`FILE`] is read if it exists.
    pub file: Option<PathBuf>,
    pub environment: BTreeMap<String, String>,
    pub flags: Flags,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {path}: {source}")]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("the configuration is not TOML: {0}")]
    NotToml(String),
    #[error(
        "the configuration has an unknown table or key `{0}`; known tables are http, database, sessions, limits, poster"
    )]
    UnknownTable(String),
    #[error("[{table}] of the configuration: {reason}")]
    BadTable { table: String, reason: String },
    #[error("the environment variable {name}: {reason}")]
    BadVariable { name: String, reason: String },
}

impl Config {
    pub fn load(sources: Sources) -> Result<Config, ConfigError> {
        let text = read(sources.file.as_deref())?;
        let mut root: Table =
            toml::from_str(&text).map_err(|error| ConfigError::NotToml(error.to_string()))?;
        check_framework_section(&mut root)?;
        apply_environment(&mut root, &sources.environment)?;
        let config = Config {
            leptos: framework_options(&text, &sources)?,
            http: take(&mut root, "http")?,
            database: take(&mut root, "database")?,
            sessions: take(&mut root, "sessions")?,
            limits: take(&mut root, "limits")?,
            poster: take(&mut root, "poster")?,
            test_clock: sources.flags.test_clock,
        };
        match root.keys().next() {
            Some(unknown) => Err(ConfigError::UnknownTable(unknown.clone())),
            None => {
                config.check()?;
                Ok(config.with(sources.flags))
            }
        }
    }

    /// What a number or an address may be, where its type allows more.
    fn check(&self) -> Result<(), ConfigError> {
        let PosterSettings { lanes, round_max, queue_max, aside_connections } = self.poster;
        let database = &self.database;
        let wide = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let ranges = [
            ("poster", "lanes", lanes, 1..=64),
            ("poster", "round_max", round_max, 1..=4_096),
            ("poster", "queue_max", queue_max, round_max..=1_000_000),
            ("poster", "aside_connections", aside_connections, 1..=64),
            ("database", "connections_max", wide(database.connections_max), 1..=10_000),
            ("limits", "body_bytes_max", self.limits.body_bytes_max, 1_024..=1_073_741_824),
            ("limits", "batch_bytes_max", self.limits.batch_bytes_max, 1_024..=1_073_741_824),
            ("limits", "password_hashes_at_once", self.limits.password_hashes_at_once, 1..=64),
            ("http", "head_wait_s", wide(self.http.head_wait_s), 1..=3_600),
            ("http", "body_wait_s", wide(self.http.body_wait_s), 1..=3_600),
        ];
        for (table, key, number, range) in ranges {
            if !range.contains(&number) {
                let (least, most) = range.into_inner();
                return Err(bad(table, format!("`{key}` is {number}, which is not from {least} to {most}")));
            }
        }
        let addresses =
            [("url", &database.url), ("owner_url", &database.owner_url), ("read_url", &database.read_url)];
        let empty = addresses.into_iter().find(|(_, url)| url.as_deref().is_some_and(is_blank));
        match empty {
            Some((key, _)) => Err(bad("database", format!("`{key}` is empty; leave it out to have none"))),
            None => Ok(()),
        }
    }

    fn with(mut self, flags: Flags) -> Config {
        self.database.url = flags.database_url.or(self.database.url);
        self.http.metrics_address = flags.metrics_address.or(self.http.metrics_address);
        self.http.base_url = self.http.base_url.map(|url| url.trim_end_matches('/').to_owned());
        self
    }
}

fn bad(table: &str, reason: String) -> ConfigError {
    ConfigError::BadTable { table: table.to_owned(), reason }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn read(named: Option<&Path>) -> Result<String, ConfigError> {
    let path = named.unwrap_or(Path::new(FILE));
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(ConfigError::Unreadable { path: path.to_owned(), source }),
    }
}

/// The framework itself ignores keys it does not know; here they are refused.
fn check_framework_section(root: &mut Table) -> Result<(), ConfigError> {
    let Some(package) = root.remove("package") else { return Ok(()) };
    let section =
        package.get("metadata").and_then(|metadata| metadata.get("leptos")).and_then(Value::as_table);
    let unknown = section.into_iter().flat_map(Table::keys).find(|key| !LEPTOS_KEYS.contains(&key.as_str()));
    match unknown {
        Some(key) => {
            let reason = format!("unknown key `{key}`, expected one of {}", LEPTOS_KEYS.join(", "));
            Err(ConfigError::BadTable { table: "package.metadata.leptos".to_owned(), reason })
        }
        None => Ok(()),
    }
}

/// The framework's options by its own reader, so that its defaults and `LEPTOS_…` variables hold here too.
fn framework_options(text: &str, sources: &Sources) -> Result<LeptosOptions, ConfigError> {
    let own = format!("{LEPTOS_HEADER}\noutput-name = \"daybook\"\nsite-root = \"target/site\"\n");
    let text = if text.contains(LEPTOS_HEADER) { text } else { &own };
    let bad = |reason: String| ConfigError::BadTable { table: "package.metadata.leptos".to_owned(), reason };
    let mut options = get_config_from_str(text).map_err(|error| bad(error.to_string()))?;
    if let Some(text) = sources.environment.get("DAYBOOK_SITE_ADDR").filter(|text| !is_blank(text)) {
        options.site_addr = text.parse().map_err(|_| ConfigError::BadVariable {
            name: "DAYBOOK_SITE_ADDR".to_owned(),
            reason: "is not an address such as 127.0.0.1:3000".to_owned(),
        })?;
    }
    options.site_addr = sources.flags.site_addr.unwrap_or(options.site_addr);
    Ok(options)
}

/// Puts `DAYBOOK_<TABLE>_<KEY>` and the common names for database addresses over what the file says.
fn apply_environment(root: &mut Table, environment: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    // An empty variable counts as not set, as scripts mean it that hand one on.
    for (name, text) in environment.iter().filter(|(_, text)| !is_blank(text)) {
        let place = match name.as_str() {
            "DATABASE_URL" => Some(("database", "url".to_owned())),
            "DATABASE_OWNER_URL" => Some(("database", "owner_url".to_owned())),
            "DATABASE_READ_URL" => Some(("database", "read_url".to_owned())),
            other => place_of(other),
        };
        let Some((table, key)) = place else { continue };
        let entry = root.entry(table.to_owned()).or_insert_with(|| Value::Table(Table::new()));
        let Some(table) = entry.as_table_mut() else {
            return Err(ConfigError::BadVariable {
                name: name.clone(),
                reason: format!("[{table}] is not a table"),
            });
        };
        table.insert(key, value_of(text));
    }
    Ok(())
}

fn place_of(name: &str) -> Option<(&'static str, String)> {
    let rest = name.strip_prefix("DAYBOOK_")?.to_ascii_lowercase();
    TABLES.into_iter().find_map(|table| {
        let key = rest.strip_prefix(table)?.strip_prefix('_')?;
        Some((table, key.to_owned()))
    })
}

/// A number, boolean or list where the text is one; else the text.
fn value_of(text: &str) -> Value {
    let parsed = toml::from_str::<Table>(&format!("value = {text}")).ok();
    let value = parsed.and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn take<T: DeserializeOwned + Default>(root: &mut Table, table: &str) -> Result<T, ConfigError> {
    let Some(value) = root.remove(table) else { return Ok(T::default()) };
    value.try_into().map_err(|error: toml::de::Error| ConfigError::BadTable {
        table: table.to_owned(),
        reason: error.message().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(file: &str, environment: &[(&str, &str)], flags: Flags) -> Result<Config, ConfigError> {
        let folder = std::env::temp_dir().join(format!("daybook-config-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let name = format!("{}.toml", COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        let path = folder.join(name);
        std::fs::write(&path, file).unwrap();
        let environment =
            environment.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Config::load(Sources { file: Some(path), environment, flags })
    }

    #[test]
    fn an_empty_file_leaves_every_default() {
        let config = load("", &[], Flags::default()).unwrap();
        assert_eq!(&*config.leptos.output_name, "daybook");
        assert_eq!(config.limits.body_bytes_max, 65_536);
        assert_eq!(config.sessions.idle_staff_s, 900);
        assert_eq!(config.database.role, "daybook_app");
        assert!(config.database.url.is_none() && !config.test_clock && !config.http.is_https());
    }

    #[test]
    fn the_environment_goes_before_the_file_and_flags_before_both() {
        let file = "[package.metadata.leptos]\noutput-name = \"daybook\"\nsite-addr = \"127.0.0.1:1\"\n[sessions]\nabsolute_s = 1\n[database]\nurl = \"a\"\n";
        let environment = [
            ("DAYBOOK_SESSIONS_ABSOLUTE_S", "2"),
            ("DATABASE_URL", "b"),
            ("DAYBOOK_SITE_ADDR", "127.0.0.1:2"),
            ("DAYBOOK_KEY", "of another command"),
            ("DAYBOOK_HTTP_BASE_URL", "https://credits.example.org/"),
        ];
        let config = load(file, &environment, Flags::default()).unwrap();
        assert_eq!(config.sessions.absolute_s, 2);
        assert_eq!(config.database.url.as_deref(), Some("b"));
        assert_eq!(config.leptos.site_addr.port(), 2);
        assert_eq!(config.http.base_url.as_deref(), Some("https://credits.example.org"));
        assert!(config.http.is_https());

        let flags = Flags {
            database_url: Some("c".to_owned()),
            site_addr: Some(([127, 0, 0, 1], 3).into()),
            ..Flags::default()
        };
        let config = load(file, &environment, flags).unwrap();
        assert_eq!(config.database.url.as_deref(), Some("c"));
        assert_eq!(config.leptos.site_addr.port(), 3);
    }

    #[test]
    fn an_unknown_key_is_refused_by_its_name() {
        let refusal = |file: &str, environment: &[(&str, &str)]| {
            load(file, environment, Flags::default()).unwrap_err().to_string()
        };
        assert!(refusal("[sessions]\nidle = 5\n", &[]).contains("`idle`"));
        assert!(refusal("[session]\nidle_s = 5\n", &[]).contains("`session`"));
        assert!(refusal("[package.metadata.leptos]\noutput-nam = \"x\"\n", &[]).contains("`output-nam`"));
        assert!(refusal("", &[("DAYBOOK_LIMITS_BODY", "5")]).contains("`body`"));
    }

    #[test]
    fn an_empty_variable_counts_as_not_set_and_an_empty_setting_is_refused() {
        let environment = [("DATABASE_URL", ""), ("DATABASE_OWNER_URL", " "), ("DAYBOOK_DATABASE_ROLE", "")];
        let config = load("# private\n", &environment, Flags::default()).unwrap();
        assert_eq!((config.database.url, config.database.owner_url), (None, None));
        assert_eq!(config.database.role, "daybook_app");
        let file = "[database]\nurl = \"postgres://a@b/c\"\n";
        let config = load(file, &environment, Flags::default()).unwrap();
        assert_eq!(config.database.url.as_deref(), Some("postgres://a@b/c"));
        let refused = load("[database]\nread_url = \"\"\n", &[], Flags::default()).unwrap_err();
        assert!(refused.to_string().contains("`read_url` is empty"), "{refused}");
    }

    #[test]
    fn the_poster_is_sized_within_bounds_that_are_named() {
        let config = load("[poster]\nlanes = 4\nround_max = 128\n", &[], Flags::default()).unwrap();
        let options: Options = config.poster.into();
        assert_eq!((options.lanes, options.round_max), (4, 128));
        assert_eq!((options.queue_max, options.aside_connections), (8_192, 4));
        let environment = [("DAYBOOK_POSTER_QUEUE_MAX", "300")];
        assert_eq!(load("#\n", &environment, Flags::default()).unwrap().poster.queue_max, 300);
        let cases = [
            ("lanes = 0", "`lanes` is 0, which is not from 1 to 64"),
            ("lanes = 65", "`lanes` is 65"),
            ("lanes = -1", "poster"),
            ("lanes = \"two\"", "poster"),
            ("round_max = 0", "`round_max` is 0"),
            ("round_max = 500\nqueue_max = 499", "`queue_max` is 499, which is not from 500 to 1000000"),
            ("aside_connections = 0", "`aside_connections` is 0"),
            ("lane = 2", "`lane`"),
        ];
        for (text, expected) in cases {
            let refused = load(&format!("[poster]\n{text}\n"), &[], Flags::default()).unwrap_err();
            assert!(refused.to_string().contains(expected), "{text}: {refused}");
        }
    }
}
