//! What the checker says, what the documents say, and that both say the same.

use crate::keys::{Challenge, Durability, LogFormat, LogLevel, SECTIONS};
use crate::value::{Network, read_network};
use crate::{Config, Secret, reference, sample};
use core::time::Duration;

/// The file's name in `mistakes.txt`, where each line starts with line and column.
fn reports(text: &str) -> Vec<String> {
    match Config::check(text, "f") {
        Ok((_, warnings)) => warnings.iter().map(ToString::to_string).collect(),
        Err(mistakes) => mistakes.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn every_mistake_is_told_with_its_line_column_key_and_remedy() {
    let cases: Vec<_> = include_str!("../tests/mistakes.txt").split("====\n").collect();
    assert!(cases.len() >= 60, "the table has {} cases", cases.len());
    for case in cases {
        let (text, expected) = case.split_once("----\n").expect("a case has a file and what is said of it");
        let expected: Vec<String> = expected.lines().map(|line| format!("f:{line}")).collect();
        assert!(!expected.is_empty());
        assert_eq!(reports(text), expected, "of this file:\n{text}");
    }
}

/// Policies that choose without answers are at home on every path; on `via` every policy is, and `tlwl`, `tjsq` and
/// `rwma` see the first requests' answers by `record-route`.
#[test]
fn a_policy_that_sees_what_it_goes_by_is_no_warning() {
    let sound = |path: &str, policy: &str| {
        reports(&format!(
            "[[pool]]\npath = \"{path}\"\npolicy = \"{policy}\"\nletters = [\"a-z=a\"]\n\
             destinations = [{{ id = \"a\", address = \"192.0.2.1:5060\" }}]\n"
        ))
        .is_empty()
    };
    let loads = ["tlwl", "tjsq", "tlwl-learned", "cjsq", "rwma"];
    for policy in crate::PoolPolicy::names() {
        assert!(sound("via", policy), "{policy}");
        for path in ["no-via", "transparent", "redirect"] {
            assert_eq!(sound(path, policy), !loads.contains(&policy), "{path} {policy}");
        }
        let needs_the_rest = ["tlwl-learned", "cjsq"].contains(&policy);
        assert_eq!(sound("record-route", policy), !needs_the_rest, "{policy}");
    }
}

#[test]
fn all_mistakes_of_a_file_are_told_at_once_in_the_order_of_the_file() {
    let text = "[proxy]\nfrok = \"serial\"\n[log]\nlevel = \"x\"\n[node]\nshards = 1000\n";
    let lines: Vec<usize> =
        Config::check(text, "f").expect_err("three mistakes").iter().map(|m| m.line).collect();
    assert_eq!(lines, [2, 4, 6]);
}

#[test]
fn an_empty_file_is_the_newcomers_node_on_loopback() {
    let (config, warnings) = Config::check("", "f").expect("an empty file is fine");
    assert_eq!(config, Config::default());
    assert_eq!(warnings, []);
    assert_eq!(config.domains, ["localhost"]);
    assert_eq!(config.listen.len(), 1);
    assert!(config.listen.iter().all(|listen| listen.uri.address.ip().is_loopback()));
    assert!(config.admin.listen.get().is_some_and(|address| address.ip().is_loopback()));
    assert_eq!(config.auth.challenge, Challenge::Outside);
}

#[test]
fn typed_values_reach_the_configuration() {
    let text = r#"
        domains = ["Example.ORG", "192.0.2.7"]
        transaction.t1 = "250ms"
        [[listen]]
        uri = "udp:[::1]:5070"
        advertise = "[2001:db8::1]:5060"
        [auth]
        trusted = ["10.0.0.0/8", "2001:db8::/32"]
        secret = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"
        [store]
        durability = "commit"
        [limits]
        message_bytes_max = "16KiB"
        [log]
        level = "debug"
        format = "json"
    "#;
    let (config, _) = Config::check(text, "f").expect("a sound file");
    assert_eq!(config.domains, ["example.org", "192.0.2.7"]);
    assert_eq!(config.transaction.t1, Duration::from_millis(250));
    assert_eq!(config.listen[0].uri.to_string(), "udp:[::1]:5070");
    assert_eq!(
        config.listen[0].advertise.as_ref().map(ToString::to_string).as_deref(),
        Some("[2001:db8::1]:5060")
    );
    assert_eq!(config.auth.trusted.len(), 2);
    assert_eq!(config.auth.secret.as_ref().map(|secret| secret.expose()[17]), Some(0x11));
    assert_eq!(config.store.durability, Durability::Commit);
    assert_eq!(config.limits.message_bytes_max, 16_384);
    assert_eq!((config.log.level, config.log.format), (LogLevel::Debug, LogFormat::Json));
}

#[test]
fn the_sample_has_every_key_and_reads_back_as_the_default() {
    let sample = sample();
    for section in SECTIONS {
        for key in section.keys {
            let typed = format!("{} = ", key.name);
            assert!(sample.lines().any(|line| line.trim_start_matches("# ").starts_with(&typed)), "{typed}");
        }
    }
    // The sample says both keys that exclude each other only as far as one of them is on.
    let (config, warnings) = Config::check(&sample, "sample").expect("the sample is sound");
    assert_eq!(config, Config::default());
    assert_eq!(warnings, []);
}

#[test]
fn what_is_shown_reads_back_as_it_was() {
    let text = "[node]\nserver = 'a \"quoted\" \\name'\nshards = 2\npin_cores = [3, 1]\n[auth]\ntrusted = [\"10.0.0.0/8\"]\n[admin]\nlisten = \"off\"";
    let (config, _) = Config::check(text, "f").expect("a sound file");
    let (again, _) = Config::check(&config.show(), "shown").expect("what is shown is sound");
    assert!(Config::diff(&config, &again).is_empty());
    assert_eq!(config.node.server, r#"a "quoted" \name"#);
}

#[test]
fn a_diff_tells_what_a_reload_applies_and_what_needs_a_restart() {
    let (old, _) = Config::check("", "old").expect("sound");
    let text = "domains = [\"a.org\"]\n[log]\nlevel = \"debug\"\n[[listen]]\nuri = \"udp:127.0.0.1:5060\"\nadvertise = \"a.org:5060\"";
    let (new, _) = Config::check(text, "new").expect("sound");
    let diff = Config::diff(&old, &new);
    let live: Vec<String> = diff.live.iter().map(ToString::to_string).collect();
    let restart: Vec<String> = diff.restart.iter().map(ToString::to_string).collect();
    assert_eq!(live, ["domains: [\"localhost\"] -> [\"a.org\"]", "log.level: \"info\" -> \"debug\""]);
    assert_eq!(restart, ["listen[0].advertise: none -> \"a.org:5060\""]);
    let reloaded = old.reloaded(&new);
    assert_eq!(reloaded.domains, ["a.org"]);
    assert_eq!(reloaded.log.level, LogLevel::Debug);
    assert_eq!(reloaded.listen, old.listen);
    assert_eq!(Config::diff(&reloaded, &new), crate::Diff { live: Vec::new(), restart: diff.restart });
    assert!(Config::diff(&new, &new).is_empty());
}

#[test]
fn a_pool_may_stand_in_dns_alone_and_a_name_server_needs_an_address() {
    let (config, _) = Config::check("[[pool]]\nsrv = [\"_SIP._udp.pool.example.com.\"]", "f").expect("sound");
    let pool = config.pools.first().expect("a pool");
    assert_eq!((&pool.srv[..], pool.destinations.len()), (&["_sip._udp.pool.example.com".to_owned()][..], 0));
    assert_eq!(pool.srv_interval, Duration::from_secs(30));
    assert_eq!(reports("[[pool]]\nsrv = []").len(), 1);
    assert_eq!(reports("[[pool]]\nname = \"a\"").len(), 1);
    assert!(Config::check("[node]\nname_servers = [\"[::1]:8600\"]", "f").is_ok());
    let wrong = reports("[node]\nname_servers = [\"ns.example.com:53\"]");
    assert!(wrong.len() == 1 && wrong[0].contains("needs an address"), "{wrong:?}");
}

#[test]
fn a_secret_is_neither_shown_nor_debugged_nor_told_in_a_diff() {
    let digits = "5ec2e7".repeat(10) + "5ec2";
    let (config, _) = Config::check(&format!("[auth]\nsecret = \"{digits}\""), "f").expect("sound");
    let diff = Config::diff(&Config::default(), &config);
    let told = format!("{}{config:?}{diff:?}{:?}", config.show(), Secret::from_hex(&digits));
    assert!(!told.contains("5ec2e7"));
    assert!(!told.contains("94, 194, 231"));
    let wrong = reports("[auth]\nsecret = \"5ec2e7\"");
    assert!(!wrong.is_empty() && wrong.iter().all(|line| !line.contains("5ec2e7")), "{wrong:?}");
}

#[test]
fn a_network_holds_its_own_addresses_and_no_others() {
    let net = |text: &str| -> Network { read_network(text).expect("a network") };
    assert!(net("10.0.0.0/8").contains("10.255.0.1".parse().expect("an address")));
    assert!(!net("10.0.0.0/8").contains("11.0.0.1".parse().expect("an address")));
    assert!(net("10.0.0.0/8").contains("::ffff:10.1.1.1".parse().expect("an address")));
    assert!(net("0.0.0.0/0").contains("192.0.2.1".parse().expect("an address")));
    assert!(!net("0.0.0.0/0").contains("2001:db8::1".parse().expect("an address")));
    assert!(net("2001:db8::/32").contains("2001:db8:1::1".parse().expect("an address")));
    assert!(net("192.0.2.1/32").contains("192.0.2.1".parse().expect("an address")));
}

/// No text may panic the checker, and every place it tells must exist.
#[test]
fn a_file_cut_or_damaged_anywhere_is_told_about_within_its_lines() {
    let sample: String = sample()
        .lines()
        .filter(|line| !line.starts_with('#'))
        .fold(String::new(), |text, line| text + line + "\n");
    for at in (0..sample.len()).filter(|at| sample.is_char_boundary(*at)) {
        for damage in ["", "\u{0}", "[", "\"", "é", "=", "\n[[", "9"] {
            let text =
                format!("{}{damage}{}", &sample[..at], if damage.is_empty() { "" } else { &sample[at..] });
            let lines = text.lines().count().max(1) + 1;
            for mistake in Config::check(&text, "f").err().unwrap_or_default() {
                assert!(
                    mistake.line <= lines && mistake.column >= 1 && !mistake.remedy.is_empty(),
                    "{mistake}"
                );
                assert!(!mistake.to_string().contains('\n'), "{mistake}");
            }
        }
    }
}

const CONFIG_MD: &str = include_str!("../../../docs/CONFIG.md");

#[test]
fn docs_config_md_holds_the_reference_of_this_build() {
    let reference = reference();
    let start = CONFIG_MD.find("### Top").expect("CONFIG.md has the reference");
    assert!(
        CONFIG_MD[start..].starts_with(&reference),
        "docs/CONFIG.md is behind the key table; put `tandem config reference` from its heading \"### Top\" on"
    );
}

#[test]
fn the_samples_in_docs_config_md_are_sound() {
    let mut samples = 0;
    for block in CONFIG_MD.split("```toml\n").skip(1) {
        let text = block.split("```").next().expect("a block ends");
        if let Err(mistakes) = Config::check(text, "docs/CONFIG.md") {
            panic!("{text}\n{}", mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
        }
        samples += 1;
    }
    assert!(samples >= 2);
}
