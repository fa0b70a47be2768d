//! What must hold in every run: small types that see each datagram and the end.

mod affinity;
mod answers;
mod bindings;
mod dialogs;
mod max_forwards;
mod one_final;
mod tables;
mod via;

use core::net::SocketAddr;

use tandem_base::Instant;
use tandem_sip::{Message, Outbox};

use crate::{NodeId, World};

pub use affinity::Affinity;
pub use answers::{OneAnswer, SuccessAcknowledged};
pub use bindings::BindingsKept;
pub use dialogs::{NoOrphan, OneDialog};
pub use max_forwards::HopsCount;
pub use one_final::OneFinal;
pub use tables::TablesDrain;
pub use via::ViaKept;

/// Who stands at one end of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A node of ours.
    Node,
    /// A telephone.
    Phone,
    /// Anyone else.
    Stranger,
}

/// One readable datagram.
#[derive(Clone, Copy, Debug)]
pub struct Wire<'a> {
    /// When it was sent, or when it arrived.
    pub at: Instant,
    /// Its source.
    pub from: SocketAddr,
    /// Its destination.
    pub to: SocketAddr,
    /// Who sent it.
    pub from_role: Role,
    /// Whom it is for.
    pub to_role: Role,
    /// What it says.
    pub message: &'a Message<'a>,
}

/// Something that must hold. Every method's error says what did not.
#[expect(unused_variables, reason = "most checkers look at one side only")]
pub trait Check {
    /// Its name in a failure.
    fn name(&self) -> &'static str;

    /// A datagram is sent; whether the network delivers it is open.
    ///
    /// # Errors
    ///
    /// What does not hold.
    fn sent(&mut self, wire: &Wire<'_>) -> Result<(), String> {
        Ok(())
    }

    /// A datagram arrives; called before its receiver acts.
    ///
    /// # Errors
    ///
    /// What does not hold.
    fn delivered(&mut self, wire: &Wire<'_>) -> Result<(), String> {
        Ok(())
    }

    /// A node has taken a datagram from `from` and sent `out`.
    ///
    /// # Errors
    ///
    /// What does not hold.
    fn turn(&mut self, from: SocketAddr, bytes: &[u8], out: &Outbox) -> Result<(), String> {
        Ok(())
    }

    /// A node has died.
    ///
    /// # Errors
    ///
    /// What does not hold.
    fn crashed(&mut self, node: NodeId, world: &World) -> Result<(), String> {
        Ok(())
    }

    /// Nothing is to come any more.
    ///
    /// # Errors
    ///
    /// What does not hold.
    fn at_end(&mut self, world: &World) -> Result<(), String> {
        Ok(())
    }
}

/// Every checker.
pub(crate) fn all() -> Vec<Box<dyn Check>> {
    vec![
        Box::new(OneFinal::default()),
        Box::new(Affinity::default()),
        Box::new(SuccessAcknowledged::default()),
        Box::new(OneAnswer),
        Box::new(HopsCount::default()),
        Box::new(ViaKept::default()),
        Box::new(BindingsKept::default()),
        Box::new(OneDialog),
        Box::new(NoOrphan),
        Box::new(TablesDrain),
    ]
}

/// Those that hold whatever the messages say.
pub(crate) fn of_tables() -> Vec<Box<dyn Check>> {
    vec![Box::new(OneAnswer), Box::new(TablesDrain)]
}

/// The value of a tag, empty without one.
fn tag<'a>(address: Option<tandem_sip::NameAddr<'a>>) -> &'a [u8] {
    address.and_then(|address| address.tag()).unwrap_or_default()
}

/// For people.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Shows one datagram to a checker.
#[cfg(test)]
fn see<T>(from_role: Role, to_role: Role, bytes: &[u8], look: impl FnOnce(&Wire<'_>) -> T) -> T {
    let mut index = tandem_sip::Index::new();
    let message = Message::parse(bytes, &mut index, &tandem_sip::Limits::default()).expect("a message");
    let address = |role| match role {
        Role::Node => SocketAddr::from(([10, 0, 0, 1], 5060)),
        Role::Phone | Role::Stranger => SocketAddr::from(([10, 0, 1, 1], 5060)),
    };
    let (from, to) = (address(from_role), address(to_role));
    look(&Wire { at: Instant::ZERO, from, to, from_role, to_role, message: &message })
}
