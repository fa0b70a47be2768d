//! Users and bindings of a Kamailio come over, from a dump or its SQLite file; what can't is counted with a reason.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;

use common::{Folder, NOW, all, fixed_clock, load, locations, open, sockets};
use sqlx::ConnectOptions;
use tandem_auth::Ha1;
use tandem_registrar::Locations;
use tandem_store::{Dump, ImportOptions, ImportReport, Options, Source, SqliteFile, Store, Table, UserRow};

/// What mysqldump of Kamailio's schema looks like; the times are an hour ahead of UTC, a year ahead of the clock.
const MYSQL: &str = r"-- MySQL dump 10.13  Distrib 8.0.36; it's for Linux
/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
DROP TABLE IF EXISTS `location`;
CREATE TABLE `location` (
  `id` int unsigned NOT NULL AUTO_INCREMENT,
  `ruid` varchar(64) NOT NULL DEFAULT '',
  `username` varchar(64) NOT NULL DEFAULT 'a;)',
  `domain` varchar(64) DEFAULT NULL,
  `contact` varchar(512) NOT NULL DEFAULT '',
  `received` varchar(255) DEFAULT NULL,
  `path` varchar(512) DEFAULT NULL,
  `expires` datetime NOT NULL DEFAULT '2030-05-28 21:32:15',
  `q` float(10,2) NOT NULL DEFAULT '1.00',
  `callid` varchar(255) NOT NULL DEFAULT 'Default-Call-ID',
  `cseq` int NOT NULL DEFAULT '1',
  `last_modified` datetime NOT NULL DEFAULT '2000-01-01 00:00:01',
  PRIMARY KEY (`id`),
  UNIQUE KEY `ruid_idx` (`ruid`),
  KEY `account_contact_idx` (`username`,`domain`,`contact`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3;
INSERT INTO `acc` VALUES (1,'x;'),(2,'INSERT INTO location VALUES (1);');
LOCK TABLES `location` WRITE;
INSERT INTO `location` VALUES
(1,'u-1','alice','Example.com','sip:alice@10.0.0.1:5060','sip:192.0.2.9:1024','<sip:p;lr>','2028-01-15 09:00:00',-1.00,'a\'b\\c@h',7,'2027-01-15 09:00:00'),
(2,'u-2','alice','example.com','sip:alice@10.0.0.2','','','2028-01-15 09:00:00',0.50,'c2',1,'2027-01-15 09:00:00'),
(3,'u-3','bob',NULL,'sip:bob@10.0.0.3',NULL,NULL,'2028-01-15 09:00:00',1.00,'c3',1,'2027-01-15 09:00:00'),
(4,'u-4','carol','example.com','sip:carol@10.0.0.4',NULL,NULL,'2020-01-15 09:00:00',1.00,'c4',1,'2019-01-15 09:00:00'),
(5,'u-5','dave','example.com','no uri > at all',NULL,NULL,'2028-01-15 09:00:00',1.00,'c5',1,'2027-01-15 09:00:00'),
(6,'u-6','erin'),
(7,'u-7','frank','example.com','sip:frank@10.0.0.7',NULL,NULL,'soon',1.00,'c7',1,'2027-01-15 09:00:00');
UNLOCK TABLES;
INSERT INTO `subscriber` (`id`, `username`, `domain`, `password`, `ha1`, `ha1b`) VALUES (1,'alice','Example.com','it\'s; secret','',''),(2,'bob','example.com','','00112233445566778899aabbccddeeff','');
INSERT INTO subscriber VALUES (3,'carol','example.com','','','');
INSERT INTO subscriber VALUES (4,'d',unhex);
INSERT INTO subscriber VALUES (5,_binary 'erin',0x682e6578,'pw','','')
";

/// The same two tables as pg_dump writes them.
const POSTGRES: &str = "SET standard_conforming_strings = on;\n\
    \\connect kamailio\n\
    CREATE TABLE public.subscriber (id integer NOT NULL, username character varying(64) DEFAULT ''::character varying);\n\
    COPY public.acc (id, x) FROM stdin;\n1\tCOPY public.subscriber\n\\.\n\
    COPY public.subscriber (id, username, domain, password, ha1, ha1b) FROM stdin;\n\
    1\talice\texample.com\ta\\tb\t\t\n\
    2\tbob\texample.com\n\
    3\tc\\\\d\texample.com\tx\t\t\n\\.\n\
    INSERT INTO public.subscriber (username, domain, password) VALUES ('erin', 'example.com', 'a\\b');\n";

struct Bench {
    store: Store,
    locations: Arc<Locations>,
    users: Vec<UserRow>,
    _folder: Folder,
}

impl Bench {
    fn new() -> Self {
        let folder = Folder::new();
        let store = open(&folder.db(), Options::default()).unwrap();
        Self { store, locations: locations(), users: Vec::new(), _folder: folder }
    }

    fn import(&mut self, mut source: impl Source, options: &ImportOptions) -> ImportReport {
        let users = &mut self.users;
        let (sockets, clock) = (sockets(), fixed_clock());
        let user = |user: &UserRow| users.push(user.clone());
        let import = self.store.import(&mut source, options, &self.locations, &sockets, &clock, user);
        tandem_store::run(import).unwrap().unwrap()
    }
}

fn skipped(report: &tandem_store::ImportCount) -> Vec<(u64, &'static str)> {
    assert_eq!(report.skipped.values().sum::<u64>(), report.first_skipped.len() as u64);
    report.first_skipped.clone()
}

#[test]
fn a_mysql_dump_comes_over_and_bad_rows_are_named_by_line() {
    assert_eq!(NOW.unix, 1_800_000_000, "2027-01-15 08:00:00 UTC, which the dump's times are about");
    let mut bench = Bench::new();
    let options = ImportOptions { utc_offset_secs: 3600, ..ImportOptions::default() };
    let dry = bench.import(
        Dump::new(MYSQL.as_bytes(), Table::SUBSCRIBERS),
        &ImportOptions { dry_run: true, ..options.clone() },
    );
    assert!(all(&bench.locations).is_empty() && bench.users.is_empty());
    let report = bench.import(Dump::new(MYSQL.as_bytes(), Table::SUBSCRIBERS), &options);
    assert_eq!(report, dry);
    assert_eq!((report.locations.taken, report.subscribers.taken), (2, 3));
    assert_eq!(
        skipped(&report.locations),
        [
            (26, "no domain, and none given for such rows"),
            (27, "expired"),
            (28, "contact is no URI"),
            (29, "number of values fits no known version of the table"),
            (30, "expires is no time"),
        ]
    );
    assert_eq!(
        skipped(&report.subscribers),
        [(33, "neither password nor ha1"), (34, "number of values fits no known version of the table"),]
    );
    let want = ["alice@example.com sip:alice@10.0.0.1:5060", "alice@example.com sip:alice@10.0.0.2"];
    assert_eq!(all(&bench.locations), want);
    bench.locations.lookup(b"alice@example.com", NOW.now, |b| {
        assert_eq!(b.remaining_secs(NOW.now), 365 * 86_400);
        if b.q == 1000 {
            assert_eq!((b.call_id, b.cseq, b.path), (&b"a'b\\c@h"[..], 7, &b"<sip:p;lr>"[..]));
            assert_eq!(b.received.unwrap().peer, "192.0.2.9:1024".parse().unwrap());
        }
    });
    let key = |user: &UserRow| String::from_utf8(user.key()).unwrap();
    assert_eq!(
        bench.users.iter().map(key).collect::<Vec<_>>(),
        ["alice@example.com", "bob@example.com", "erin@h.ex"]
    );
    let alice = Ha1::from_password(b"alice", b"example.com", b"it's; secret");
    let bob = Ha1::from_md5_hex(b"00112233445566778899aabbccddeeff").unwrap();
    assert_eq!((bench.users.first().unwrap().ha1, bench.users.get(1).unwrap().ha1), (alice, bob));

    // Once more: nothing is taken twice. And it is in the file.
    let again = bench.import(Dump::new(MYSQL.as_bytes(), Table::SUBSCRIBERS), &options);
    assert_eq!((again.locations.taken, again.subscribers.taken), (0, 0));
    assert_eq!(again.locations.skipped.get("registered here already"), Some(&2));
    let path = bench.store.path().to_owned();
    drop(bench.store);
    assert_eq!(load(&path).0, want);
}

#[test]
fn a_postgresql_dump_comes_over() {
    let mut bench = Bench::new();
    let report = bench.import(Dump::new(POSTGRES.as_bytes(), Table::SUBSCRIBERS), &ImportOptions::default());
    assert_eq!(skipped(&report.subscribers), [(9, "number of values fits no known version of the table")]);
    let names: Vec<_> = bench.users.iter().map(|user| user.username.as_str()).collect();
    assert_eq!(names, ["alice", "c\\d", "erin"]);
    let password = |n: usize| bench.users.get(n).unwrap().ha1;
    assert_eq!(password(0), Ha1::from_password(b"alice", b"example.com", b"a\tb"));
    assert_eq!(password(2), Ha1::from_password(b"erin", b"example.com", b"a\\b"));
}

/// The tables of Kamailio 5.6's db_sqlite, with `expires` as text.
#[test]
fn a_kamailio_sqlite_file_comes_over() {
    let mut bench = Bench::new();
    let folder = Folder::new();
    let path = folder.0.join("kamailio.sqlite");
    let make = async {
        let mut db = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true)
            .connect()
            .await?;
        let sql = "CREATE TABLE subscriber (id INTEGER PRIMARY KEY NOT NULL, username VARCHAR(64) DEFAULT '' NOT NULL,
             domain VARCHAR(64) DEFAULT '' NOT NULL, password VARCHAR(64) DEFAULT '' NOT NULL,
             ha1 VARCHAR(128) DEFAULT '' NOT NULL, ha1b VARCHAR(128) DEFAULT '' NOT NULL);
           CREATE TABLE location (id INTEGER PRIMARY KEY NOT NULL, ruid VARCHAR(64) DEFAULT '' NOT NULL,
             username VARCHAR(64) DEFAULT '' NOT NULL, domain VARCHAR(64) DEFAULT NULL,
             contact VARCHAR(512) DEFAULT '' NOT NULL, received VARCHAR(128) DEFAULT NULL, path VARCHAR(512) DEFAULT NULL,
             expires TIMESTAMP WITHOUT TIME ZONE DEFAULT '2030-05-28 21:32:15' NOT NULL, q REAL DEFAULT 1.0 NOT NULL,
             callid VARCHAR(255) DEFAULT 'Default-Call-ID' NOT NULL, cseq INTEGER DEFAULT 1 NOT NULL,
             last_modified TIMESTAMP WITHOUT TIME ZONE DEFAULT '2000-01-01 00:00:01' NOT NULL,
             user_agent VARCHAR(255) DEFAULT '' NOT NULL, socket VARCHAR(64) DEFAULT NULL);
           INSERT INTO subscriber (username, domain, password) VALUES ('alice', 'example.com', 'a'), ('', 'x', 'y');
           INSERT INTO location (username, contact, q) VALUES ('alice', 'sip:alice@10.0.0.1', -1.0);
           WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
             INSERT INTO location (username, domain, contact, q) SELECT 'u' || i, 'example.com', 'sip:u@h', 0.25 FROM n;";
        sqlx::raw_sql(sql).execute(&mut db).await
    };
    tandem_store::run(make).unwrap().unwrap();
    let source = tandem_store::run(SqliteFile::open(&path, Table::SUBSCRIBERS)).unwrap().unwrap();
    let options = ImportOptions { domain: Some("example.com".into()), ..ImportOptions::default() };
    let report = bench.import(source, &options);
    assert_eq!((report.locations.taken, report.subscribers.taken), (2501, 1));
    assert_eq!(skipped(&report.subscribers), [(2, "no user name or domain")]);
    assert_eq!(bench.locations.lookup(b"alice@example.com", NOW.now, |b| assert_eq!(b.q, 1000)), 1);
    assert_eq!(bench.locations.lookup(b"u2500@example.com", NOW.now, |b| assert_eq!(b.q, 250)), 1);
    assert!(
        tandem_store::run(SqliteFile::open(&folder.0.join("none"), Table::SUBSCRIBERS)).unwrap().is_err()
    );
}

/// No bytes make the reader panic or loop: cuts and changes of a dump end in rows, broken rows or the end.
#[test]
fn a_damaged_dump_never_panics_and_always_ends() {
    for dump in [MYSQL, POSTGRES] {
        for cut in 0..dump.len() {
            let mut bytes = dump.as_bytes().to_vec();
            match cut % 3 {
                0 => bytes.truncate(cut),
                1 => bytes.splice(cut..=cut, *b"'").for_each(drop),
                _ => bytes.splice(cut..=cut, *b"(").for_each(drop),
            }
            let mut items = 0;
            let mut dump = Dump::new(bytes.as_slice(), Table::SUBSCRIBERS);
            while dump.next_item().unwrap().is_some() {
                items += 1;
                assert!(items < 100);
            }
        }
    }
}
