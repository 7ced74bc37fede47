import pytest

from ferryman import Ferryman
from ferryman.kernel import errors
from ferryman.kernel.settings import Settings


@pytest.mark.contract("S7")
async def test_a_doorbell_may_be_chosen_by_its_name(database_url: str) -> None:
    async with Ferryman(database_url, doorbell="none") as app:
        assert app.settings.doorbell == "none"


@pytest.mark.contract("S7")
def test_settings_given_whole_are_not_mixed_with_others() -> None:
    with pytest.raises(errors.SettingsInvalid, match="whole or by name"):
        Ferryman(settings=Settings(tenant="acme"), tenant="other")
