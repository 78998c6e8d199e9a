"""The two configurations of cloudbase-init on an image: its service's, and that of its run inside Windows Setup."""

from collections.abc import Iterable

from transom.capi.check import upstream
from transom.capi.check.worker_inputs import ProviderName
from transom.capi.image.inputs import ImageInputs
from transom.capi.providers.provider_table import PROVIDERS

BOOTHOOK = "cloudbaseinit.plugins.common.userdataplugins.cloudboothook.CloudBootHookPlugin"
"""The plugin that `transom_boothook.BoothookPlugin` takes the place of."""

_USER_DATA_PLUGINS = (
    "cloudbaseinit.plugins.common.userdataplugins.parthandler.PartHandlerPlugin",
    "cloudbaseinit.plugins.common.userdataplugins.cloudconfig.CloudConfigPlugin",
    BOOTHOOK,
    "cloudbaseinit.plugins.common.userdataplugins.shellscript.ShellScriptPlugin",
    "cloudbaseinit.plugins.common.userdataplugins.multipartmixed.MultipartMixedPlugin",
)


def render_service_config(inputs: ImageInputs) -> bytes:
    """`cloudbase-init.conf`: what happens at a machine's first boot, by the provider's metadata."""
    user_data = list(_USER_DATA_PLUGINS)
    if inputs.provider == "aws":
        user_data[user_data.index(BOOTHOOK)] = "transom_boothook.BoothookPlugin"
    return _render(
        "allow_reboot=true",
        "metadata_report_provisioning_started=true",
        "metadata_report_provisioning_completed=true",
        "logfile=cloudbase-init.log",
        r"local_scripts_path=C:\Program Files\Cloudbase Solutions\Cloudbase-Init\LocalScripts" + "\\",
        f"metadata_services={','.join(PROVIDERS[inputs.provider].metadata_services)}",
        f"plugins={','.join(_list_plugins(inputs.provider))}",
        f"user_data_plugins={','.join(user_data)}",
    )


def render_unattended_config() -> bytes:
    """`cloudbase-init-unattend.conf`: what happens in Setup's specialize pass, where no other program may restart Windows."""
    return _render(
        "allow_reboot=false",
        "logfile=cloudbase-init-unattend.log",
        f"metadata_services={upstream.EARLY_SERVICE.value}",
        f"plugins={upstream.EARLY_PLUGINS.value}",
    )


def _list_plugins(provider: ProviderName) -> Iterable[str]:
    yield "cloudbaseinit.plugins.common.mtu.MTUPlugin"
    if PROVIDERS[provider].static_addresses:
        yield upstream.NETWORK_PLUGIN.value
    # it asks for a restart: whatever stands after it waits for the name
    yield "cloudbaseinit.plugins.common.sethostname.SetHostNamePlugin"
    yield upstream.PASSWORD_PLUGIN.value
    yield "cloudbaseinit.plugins.windows.extendvolumes.ExtendVolumesPlugin"
    if provider == "azure":
        yield upstream.AZURE_AGENT_PLUGIN.value
    yield "cloudbaseinit.plugins.common.localscripts.LocalScriptsPlugin"
    yield "cloudbaseinit.plugins.common.userdata.UserDataPlugin"


def _render(*lines: str) -> bytes:
    common = (
        "[DEFAULT]",
        "username=Administrator",
        "inject_user_password=false",
        "first_logon_behaviour=no",
        "check_latest_version=false",
        "stop_service_on_exit=false",
        "verbose=true",
        "debug=false",
        r"logdir=C:\Program Files\Cloudbase Solutions\Cloudbase-Init\log" + "\\",
    )
    return "\r\n".join((*common, *lines, "")).encode("ascii")
