//! A bounded table of calls whose places are reused, each time under a new serial number.

use crate::token::Token;

/// Places for values of one kind.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
    capacity: usize,
}

impl<T> Table<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), capacity: capacity.min(u32::MAX as usize) }
    }

    /// Puts a value in a free place; `None` if there is none left.
    pub(crate) fn insert(&mut self, value: T) -> Option<Token> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < self.capacity => {
                let slot = u32::try_from(self.slots.len()).ok()?;
                self.slots.push((0, None));
                slot
            }
            None => return None,
        };
        let (serial, place) = self.slots.get_mut(slot as usize)?;
        *serial = serial.wrapping_add(1);
        *place = Some(value);
        Some(Token { slot, serial: *serial })
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        match self.slots.get_mut(token.slot as usize) {
            Some((serial, Some(value))) if *serial == token.serial => Some(value),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, token: Token) -> Option<T> {
        let (serial, place) = self.slots.get_mut(token.slot as usize)?;
        if *serial != token.serial {
            return None;
        }
        let value = place.take()?;
        self.free.push(token.slot);
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_place_does_not_answer_to_the_old_token_and_a_full_table_refuses() {
        let mut table = Table::new(1);
        let old = table.insert('a').unwrap();
        assert_eq!(table.insert('b'), None);
        assert_eq!(table.remove(old), Some('a'));
        let new = table.insert('c').unwrap();
        assert_eq!(table.get_mut(old), None);
        assert_eq!((table.remove(old), table.len()), (None, 1));
        assert_eq!(table.get_mut(new), Some(&mut 'c'));
    }
}
