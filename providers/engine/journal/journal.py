"""The journal: what was about to be bought, what became of it, what was refused lately, and who is
at work.

An order is on the disk before the call that may create a machine, and buying refuses to go on
without that. The journal backs up the labels on the machines everywhere, and is the only memory
where a cloud has none. Imported only when a journal exists or is about to.
"""

from __future__ import annotations

from providers.engine.journal import blocks as _blocks
from providers.engine.journal import closures as _closures
from providers.engine.journal import leases as _leases
from providers.engine.journal import orders as _orders
from providers.engine.journal import owners as _owners
from providers.engine.journal import placements as _placements
from providers.engine.journal import races as _races
from providers.engine.journal import tries as _tries
from providers.engine.journal import volumes as _volumes
from providers.engine.journal import waits as _waits
from providers.engine.journal.database import Database


class Journal(Database):
    """One open journal, and all that can be asked of it; each method is a function of its table's
    module.

    Times are on the clock of the world they belong to, in seconds since the epoch.
    """

    whole = True
    """Whether what was written before can be read."""

    intend = _orders.intend
    note = _orders.note
    made = _orders.made
    settled = _orders.settled
    release = _orders.release
    forget = _orders.forget
    adopt = _orders.adopt
    orders = _orders.find
    payers = _orders.payers
    prepaid = _orders.prepaid

    win = _races.win
    has_lost = _races.has_lost
    orders_of = _races.orders_of
    beaten = _races.beaten
    racers = _races.racers

    launched = _placements.launched
    remember = _placements.remember
    stopped = _placements.stopped
    ending = _placements.ending
    concluded = _placements.concluded
    destroyed = _placements.destroyed
    set_back = _placements.set_back
    conclusions = _placements.conclusions
    ended_why = _placements.ended_why
    launches = _placements.find
    standing = _placements.standing

    blocks = _blocks.find
    block = _blocks.block
    clear = _blocks.clear
    unblock = _blocks.unblock

    note_tries = _tries.note_tries
    tries = _tries.find_tries
    forget_tries = _tries.forget_tries

    closures = _closures.find
    close_to = _closures.close_to
    open_to = _closures.open_to
    forget_closures = _closures.forget_closures

    take = _leases.take
    holder = _leases.holder
    drop = _leases.drop
    leased = _leases.leased

    intend_volume = _volumes.intend_volume
    intended_volume = _volumes.intended_volume
    repeat_volume = _volumes.repeat_volume
    settled_volume = _volumes.settled_volume
    unmade_volume = _volumes.unmade_volume
    count_volume = _volumes.count_volume
    gone_volume = _volumes.gone_volume
    forget_volumes = _volumes.forget_volumes
    volume_spells = _volumes.volume_spells

    waits = _waits.waits
    waits_no_more = _waits.waits_no_more
    waiting = _waits.waiting

    owned = _owners.owned
    owners = _owners.find
    previous = _owners.previous
    claim = _owners.claim
    claims = _owners.claims
    look = _owners.look
