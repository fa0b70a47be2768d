//! The newcomer's first call: two users, and the lines that make two phones of this machine use them.

use crate::password;
use crate::serve::operator::Operator;
use anyhow::{Context as _, anyhow};
use std::io::Write as _;
use std::path::Path;
use tandem_config::{Algorithm, Config};

/// SIPp scenarios with credentials and routes, which SIPp's own do without.
const SCENARIOS: [(&str, &str); 3] = [
    ("register.xml", include_str!("newcomer/register.xml")),
    ("answer.xml", include_str!("newcomer/answer.xml")),
    ("call.xml", include_str!("newcomer/call.xml")),
];

/// The newcomer's node: every default, but MD5 only.
///
/// Interop: SIPp 3.6 and baresip 1.0, which Debian 12 has, give up when SHA-256 is offered at all. The stored users
/// have both hashes, so that nothing needs to change for a node with a file.
pub(crate) fn config() -> anyhow::Result<Config> {
    match Config::check("[auth]\nalgorithms = [\"MD5\"]\n", "--newcomer") {
        Ok((config, _)) => Ok(config),
        Err(mistakes) => Err(anyhow!("{mistakes:?}")),
    }
}

/// Makes alice and bob if there is no user yet, and prints what to type; their passwords are shown this once.
pub(crate) async fn greet(operator: &Operator, config: &Config) -> anyhow::Result<()> {
    let domain = config.domains.first().context("there is always a domain")?;
    let listen = config.listen.first().context("there is always a listener")?;
    let to = listen.advertise.as_ref().map_or_else(|| listen.uri.address.to_string(), ToString::to_string);
    let mut text = String::new();
    if operator.shared.users.is_empty() {
        let mut passwords = Vec::new();
        for user in ["alice", "bob"] {
            let password = password::make()?;
            operator.make_user(user, &password).await.map_err(|failure| anyhow!(failure.message))?;
            passwords.push(password);
        }
        let [alice, bob] = passwords.as_slice() else { return Ok(()) };
        text.push_str(&first_call(domain, &to, alice, bob, &config.auth.algorithms));
        for (name, scenario) in SCENARIOS {
            std::fs::write(Path::new(name), scenario).with_context(|| format!("writing {name}"))?;
        }
    } else {
        text.push_str(&format!(
            "\nTandem listens on {to} for {domain}. Its users are here from an earlier start:\n\n"
        ));
        text.push_str(
            "  tandem ctl users list\n  tandem ctl users passwd alice   # to choose a new password\n\n",
        );
    }
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

fn first_call(domain: &str, to: &str, alice: &str, bob: &str, algorithms: &[Algorithm]) -> String {
    let note = if algorithms.first() == Some(&Algorithm::Sha256) {
        "\n(SIPp before 3.7 and baresip before 2 need `[auth] algorithms = [\"MD5\"]` in the configuration.)"
    } else {
        ""
    };
    format!(
        "
Tandem listens on {to} for {domain}. Its users, whose passwords are not shown again:

  alice@{domain}   {alice}
  bob@{domain}     {bob}

A call with baresip, in two terminals: bob first, who answers with a; then alice, who calls.{note}

  baresip -4 -n 127.0.0.1 -f bob -e '/uanew <sip:bob@{domain}>;auth_pass={bob};outbound=\"sip:{to}\"'
  baresip -4 -n 127.0.0.1 -f alice -e '/uanew <sip:alice@{domain}>;auth_pass={alice};outbound=\"sip:{to}\"' -e '/dial sip:bob@{domain}'

A call with SIPp: bob registers and waits for calls, alice makes one.

  sipp {to} -sf register.xml -s bob -au bob -ap {bob} -auth_uri {domain} -key domain {domain} -p 5070 -m 1
  sipp {to} -sf answer.xml -p 5070
  sipp {to} -sf call.xml -s bob -key caller alice -au alice -ap {alice} -auth_uri bob@{domain} -key domain {domain} -p 5071 -m 1

Then look at the node:

  tandem ctl status
  tandem ctl bindings list

"
    )
}
