"""How the commands that run submitted code for others choose what confines it."""

import logging

from service.cli.usage_errors import refuse
from service.sandbox.choose_tier import NoTierHolds, choose
from service.sandbox.tiers import Tier

logger = logging.getLogger(__name__)


def choose_tier(wanted: str) -> Tier:
    """Return the tier, and log it. If none holds, the command ends with 2."""
    try:
        tier = choose(wanted)
    except NoTierHolds as error:
        refuse(str(error))
    facts = {"tier": tier.value, "stands": tier.description, "not_covered": tier.not_covered}
    if tier.confines:
        logger.info("submitted code is confined", extra=facts)
    else:
        logger.warning("submitted code is NOT confined", extra=facts)
    return tier
