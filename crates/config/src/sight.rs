//! What a pool's policy and health go by, against what its `path` lets this node see.
//!
//! | path | seen of a call |
//! |---|---|
//! | `via` | all of it |
//! | `record-route` | its first request, until that is answered |
//! | `no-via`, `transparent`, `redirect` | its first request, and no answer |
//!
//! Nothing here is a mistake: such a pool runs, but not as its file reads.

use crate::keys::{Pool, PoolPath, PoolPolicy};
use crate::mistake::Findings;
use crate::raw::RawTable;

/// What a policy compares of what answers tell; `None` for those that choose without.
const fn compared(policy: PoolPolicy) -> Option<&'static str> {
    match policy {
        PoolPolicy::Tlwl | PoolPolicy::Tjsq | PoolPolicy::TlwlLearned => Some("counts unanswered requests"),
        PoolPolicy::Cjsq => Some("counts calls"),
        PoolPolicy::Rwma => Some("compares response times"),
        PoolPolicy::RoundRobin
        | PoolPolicy::Rendezvous
        | PoolPolicy::Hash
        | PoolPolicy::Fnv
        | PoolPolicy::User
        | PoolPolicy::UserBernstein
        | PoolPolicy::UserSha1
        | PoolPolicy::UserLetter => None,
    }
}

/// Warns of a policy, and of settings, that go by what the path hides.
pub(crate) fn check(table: &RawTable, pool: &Pool, findings: &mut Findings<'_>) {
    let path = pool.path.name();
    let typed = |key: &str| table.get(key).map(|(_, at)| at);
    // The policy's line, else the path's: one of the two was typed, since the default path sees everything.
    let chosen = if table.get("policy").is_some() { "policy" } else { "path" };
    let at = typed(chosen).unwrap_or(table.at);
    let policy = pool.policy.name();
    let unanswered = match pool.path {
        PoolPath::Via => return,
        PoolPath::NoVia | PoolPath::Transparent | PoolPath::Redirect => true,
        PoolPath::RecordRoute => false,
    };
    if !unanswered {
        match pool.policy {
            PoolPolicy::Cjsq => findings.warning(
                at,
                &table.path(chosen),
                format!("\"cjsq\" counts calls, and with path = \"{path}\" each is seen only until it is answered"),
                r#"write policy = "tlwl", or path = "via""#,
            ),
            PoolPolicy::TlwlLearned => findings.warning(
                at,
                &table.path(chosen),
                format!("\"tlwl-learned\" times INVITE against BYE, and with path = \"{path}\" no BYE comes by this node"),
                r#"write policy = "tlwl" with invite_weight, or path = "via""#,
            ),
            PoolPolicy::Tlwl
            | PoolPolicy::Tjsq
            | PoolPolicy::Rwma
            | PoolPolicy::RoundRobin
            | PoolPolicy::Rendezvous
            | PoolPolicy::Hash
            | PoolPolicy::Fnv
            | PoolPolicy::User
            | PoolPolicy::UserBernstein
            | PoolPolicy::UserSha1
            | PoolPolicy::UserLetter => {}
        }
    } else if let Some(compared) = compared(pool.policy) {
        findings.warning(
            at,
            &table.path(chosen),
            format!(
                "\"{policy}\" {compared}, and with path = \"{path}\" no answer comes by this node: calls are dealt \
                 out at random, by weight"
            ),
            r#"write policy = "round-robin" or "rendezvous", or path = "via""#,
        );
    }
    if let Some(at) = typed("bound_percent").filter(|_| pool.bound_percent > 0) {
        let seen =
            if unanswered { "no call is counted" } else { "calls are counted only until they are answered" };
        findings.warning(
            at,
            &table.path("bound_percent"),
            format!("does not bound calls: with path = \"{path}\" {seen}"),
            r#"remove it, or write path = "via""#,
        );
    }
    if !unanswered {
        return;
    }
    for (key, does_something) in [
        ("failover_codes", !pool.failover_codes.is_empty()),
        ("failover_timeout", !pool.failover_timeout.is_zero()),
        ("tries_max", pool.tries_max > 1),
        ("retry_percent", pool.retry_percent > 0),
        ("passive_fall", pool.passive_fall > 0),
        ("hold", true),
        ("hold_max", true),
    ] {
        if let Some(at) = typed(key).filter(|_| does_something) {
            findings.warning(
                at,
                &table.path(key),
                format!("has no effect: with path = \"{path}\" no answer comes by this node"),
                r#"remove it, or write path = "via""#,
            );
        }
    }
    if let Some(at) = typed("probe_interval").filter(|_| pool.probe_interval.is_zero()) {
        findings.warning(
            at,
            &table.path("probe_interval"),
            format!(
                "nothing tells that a server is down: with path = \"{path}\" no answer comes by this node"
            ),
            r#"write a time, as probe_interval = "3s""#,
        );
    }
}
