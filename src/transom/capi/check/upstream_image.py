"""What Transom relies on of image-builder where an image's build has choices; part of the table of `upstream`."""

from transom.capi.check.upstream import CAPZ, CLOUDBASE_INIT, IMAGE_BUILDER, PACKER, ROLES, Fact, create_fact

HYPER_V = create_fact(
    IMAGE_BUILDER,
    f"{ROLES}/systemprep/tasks/main.yml",
    "Hyper-V's features: the role, its hypervisor, its cmdlets",
    "Microsoft-Hyper-V, Microsoft-Hyper-V-Online, Hyper-V-PowerShell",
    "dism /online /enable-feature /featurename:Microsoft-Hyper-V /all /NoRestart",
    "dism /online /disable-feature /featurename:Microsoft-Hyper-V-Online /NoRestart",
    "      - Hyper-V-PowerShell\n",
)
DELAYED_WINRM = create_fact(
    IMAGE_BUILDER,
    f"{ROLES}/systemprep/tasks/main.yml",
    "WinRM has a delayed start if Hyper-V is enabled",
    "delayed-auto",
    "sc.exe config winrm start=delayed-auto",
)
COMPARTMENTS = create_fact(
    IMAGE_BUILDER,
    f"{ROLES}/runtimes/tasks/containerd.yml",
    "containers find SMB shares by name, as gMSA needs",
    "EnableCompartmentNamespace",
    r"HKLM:\SYSTEM\CurrentControlSet\Services\hns\State",
    "name: EnableCompartmentNamespace\n    data: 1",
)
CHOICES = create_fact(
    IMAGE_BUILDER,
    f"{PACKER}/config/windows/common.json",
    "variables of a build's choices",
    "disable_hypervisor, windows_updates_kbs, windows_updates_categories",
    '"disable_hypervisor"',
    '"windows_updates_categories"',
    '"windows_updates_kbs"',
)
UPDATE_CATEGORIES = create_fact(
    IMAGE_BUILDER,
    f"{ROLES}/systemprep/tasks/main.yml",
    "categories of updates, without their spaces",
    "CriticalUpdates, SecurityUpdates, UpdateRollups",
    "      - CriticalUpdates\n",
    "      - SecurityUpdates\n",
    "      - UpdateRollups\n",
)
ADDITIONAL_IMAGES = create_fact(
    IMAGE_BUILDER,
    f"{ROLES}/load_additional_components/tasks/registry.yml",
    "images that are pulled at the build, with a comma between two",
    "additional_registry_images_list",
    "additional_registry_images_list.split(',')",
    "ctr.exe -n k8s.io images pull",
)
ACR_PROVIDER = create_fact(
    IMAGE_BUILDER,
    f"{ROLES}/providers/tasks/azure.yml",
    "the kubelet's program for logins at Azure's registries",
    "acr-credential-provider",
    r"dest: C:\var\lib\kubelet\credential-provider\acr-credential-provider.exe",
)
ECR_PROVIDER = create_fact(
    IMAGE_BUILDER,
    "images/capi/ansible/roles/ecr_credential_provider/tasks/main.yaml",
    "the kubelet's program for logins at AWS' registries",
    "ecr-credential-provider",
    "ecr-credential-provider",
)
CREDENTIAL_FLAGS = create_fact(
    CAPZ,
    "templates/test/ci/cluster-template-prow-ci-version-windows.yaml",
    "the kubelet's flags for it, on Windows too",
    "image-credential-provider-bin-dir, image-credential-provider-config",
    "image-credential-provider-bin-dir: /var/lib/kubelet/credential-provider",
    "image-credential-provider-config: /var/lib/kubelet/credential-provider-config.yaml",
)

CLOCK = create_fact(
    CLOUDBASE_INIT,
    "cloudbaseinit/osutils/windows.py",
    "the registry's value for a hardware clock in UTC",
    "RealTimeIsUniversal",
    "TimeZoneInformation",
    "RealTimeIsUniversal",
)
FIRST_BOOT = create_fact(
    IMAGE_BUILDER,
    f"{ROLES}/cloudbase-init/templates/cloudbase-init.conf",
    "variables of cloudbase-init's clock and serial log",
    "cloudbase_real_time_clock_utc, cloudbase_logging_serial_port",
    "real_time_clock_utc={{ cloudbase_real_time_clock_utc }}",
    "logging_serial_port_settings={{ cloudbase_logging_serial_port }}",
)
GALLERY = create_fact(
    IMAGE_BUILDER,
    f"{PACKER}/azure/packer-windows.json",
    "variables of a gallery on Azure",
    "shared_image_gallery_name, sig_image_version",
    '"gallery_name": "{{user `shared_image_gallery_name`}}"',
    '"image_version": "{{user `sig_image_version`}}"',
)

FACTS: tuple[Fact, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Fact))
"""All of them, in the order above."""
